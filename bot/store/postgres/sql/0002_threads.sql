-- The list of threads, computed from the journals. All of it can be lost, and `plangate reindex` rebuilds it.

CREATE TABLE plangate_threads (
    repository bigint NOT NULL,
    number bigint NOT NULL,
    shape text NOT NULL,
    installation bigint,
    owner text NOT NULL,
    name text NOT NULL,
    folded text NOT NULL,
    stage text NOT NULL,
    waiting_for text NOT NULL,
    updated text COLLATE "C" NOT NULL,
    words text NOT NULL,
    chain_hash text NOT NULL,
    summary text NOT NULL,
    task text,
    changed timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (repository, number)
);
CREATE INDEX plangate_threads_by_time ON plangate_threads (updated DESC, repository, number);
CREATE INDEX plangate_threads_by_name ON plangate_threads (folded, number);
CREATE INDEX plangate_threads_by_change ON plangate_threads (changed);

CREATE TABLE plangate_bookings (
    repository bigint NOT NULL,
    number bigint NOT NULL,
    shape text NOT NULL,
    day text COLLATE "C" NOT NULL,
    name text NOT NULL,
    folded text NOT NULL,
    person text NOT NULL,
    model text NOT NULL,
    cost_usd double precision NOT NULL,
    tokens_input integer NOT NULL,
    tokens_output integer NOT NULL
);
CREATE INDEX plangate_bookings_of_thread ON plangate_bookings (repository, number);

-- A changed row gets the time of its change, so that readers notice it.
CREATE FUNCTION plangate_threads_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed := clock_timestamp();
    RETURN NEW;
END $$;
CREATE TRIGGER plangate_threads_changed BEFORE UPDATE ON plangate_threads
    FOR EACH ROW EXECUTE FUNCTION plangate_threads_changed();
