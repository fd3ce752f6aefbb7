-- The wake-ups of the service. The journal of a thread is the truth: all of this can be lost, and `plangate reindex`
-- rebuilds it.

-- The deliveries that were answered with 202, so that the same guid is stored once.
CREATE TABLE plangate_deliveries (
    guid text PRIMARY KEY,
    event text NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX plangate_deliveries_stored_at ON plangate_deliveries (stored_at);

-- What the last look saw of each open thread: its plan comment, which is polled for reactions, and until when it rests.
CREATE TABLE plangate_watched (
    repository bigint NOT NULL,
    number bigint NOT NULL,
    facts jsonb NOT NULL,
    PRIMARY KEY (repository, number)
);

-- Who does what only one process may do, until when.
CREATE TABLE plangate_leases (
    name text PRIMARY KEY,
    holder text NOT NULL,
    until timestamptz NOT NULL
);
