-- What the bot listens to in each repository, as the last look there read it: a delivery that reports nothing of it needs
-- no look. All of it can be lost: then each delivery leads to a look.
CREATE TABLE plangate_listeners (
    repository bigint PRIMARY KEY,
    bot bigint NOT NULL,
    mention text NOT NULL
);
