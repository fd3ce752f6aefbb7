-- The threads that do not rest, and the workers that check them. Before, these were jobs in the tables of procrastinate.

CREATE TABLE plangate_workers (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    heard timestamptz NOT NULL DEFAULT now(),
    -- Whether it keeps a session open, and in it an advisory lock on its number. The server releases the lock when the
    -- session ends. A worker that was paused, or whose machine vanished, still holds it: its heart tells.
    has_session boolean NOT NULL DEFAULT false
);

CREATE SEQUENCE plangate_places;
CREATE SEQUENCE plangate_runs;
CREATE TABLE plangate_wakes (
    repository bigint NOT NULL,
    number bigint NOT NULL,  -- 0 in repository 0: every open thread
    installation bigint NOT NULL,  -- 0: none
    address jsonb NOT NULL,
    look_turn bigint,
    session_turn bigint,
    place bigint NOT NULL DEFAULT nextval('plangate_places'),  -- who is first of those with the same turn
    unread boolean NOT NULL DEFAULT true,
    due timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    checker bigint,
    check_run bigint,
    has_session boolean NOT NULL DEFAULT false,
    reader bigint,
    read_run bigint,
    PRIMARY KEY (repository, number)
);
CREATE INDEX plangate_wakes_by_look ON plangate_wakes (look_turn, place) WHERE look_turn IS NOT NULL;
CREATE INDEX plangate_wakes_by_session ON plangate_wakes (session_turn, place) WHERE session_turn IS NOT NULL;
CREATE INDEX plangate_wakes_by_look_of ON plangate_wakes (installation, look_turn) WHERE look_turn IS NOT NULL;
CREATE INDEX plangate_wakes_by_session_of ON plangate_wakes (installation, session_turn) WHERE session_turn IS NOT NULL;
CREATE INDEX plangate_wakes_unread ON plangate_wakes (look_turn, place) WHERE unread;

-- Workers hear of what they may begin.
CREATE FUNCTION plangate_wakes_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('plangate_wakes', '');
    RETURN NULL;
END $$;
CREATE TRIGGER plangate_wakes_added AFTER INSERT ON plangate_wakes
    FOR EACH ROW EXECUTE FUNCTION plangate_wakes_changed();
CREATE TRIGGER plangate_wakes_changed AFTER UPDATE ON plangate_wakes FOR EACH ROW
    WHEN (NEW.unread AND NOT OLD.unread
        OR NEW.look_turn IS NOT NULL AND OLD.look_turn IS NULL
        OR NEW.session_turn IS NOT NULL AND OLD.session_turn IS NULL
        OR NEW.look_turn IS NOT NULL AND (
            NEW.check_run IS NULL AND OLD.check_run IS NOT NULL OR NEW.read_run IS NULL AND OLD.read_run IS NOT NULL
        ))
    EXECUTE FUNCTION plangate_wakes_changed();

-- Whether a worker of the release before checks a thread: those that have begun go on until they end.
CREATE FUNCTION plangate_is_held_v1(repository bigint, number bigint) RETURNS boolean LANGUAGE sql STABLE AS
    'SELECT false';

-- A database of the release before: what waits moves over. Its processes go on: what they store and give back comes
-- here, and its workers end what they have begun, and begin nothing more.
DO $move$
BEGIN
    IF to_regclass('procrastinate_jobs') IS NULL THEN
        RETURN;
    END IF;

    EXECUTE $sql$
        CREATE OR REPLACE FUNCTION plangate_is_held_v1(repository bigint, number bigint)
        RETURNS boolean LANGUAGE sql STABLE AS $$
            SELECT EXISTS (
                SELECT FROM procrastinate_jobs j JOIN procrastinate_workers w ON w.id = j.worker_id
                WHERE j.status = 'doing' AND w.last_heartbeat > now() - interval '25 seconds'
                    AND j.lock = 'thread ' || repository || '/' || number
            )
        $$
    $sql$;

    EXECUTE $sql$
        CREATE OR REPLACE FUNCTION plangate_wake_v1(about text, args jsonb) RETURNS boolean LANGUAGE sql AS $$
            INSERT INTO plangate_wakes AS w (repository, number, installation, address, look_turn)
                SELECT coalesce((args->>'repository')::bigint, 0), coalesce((args->>'number')::bigint, 0),
                    coalesce((args->>'installation')::bigint, 0),
                    args - ARRAY['repository', 'number', 'installation'],
                    (SELECT coalesce(max(l.look_turn) + 1, 0) FROM plangate_wakes l)
                ON CONFLICT (repository, number) DO UPDATE SET
                    address = excluded.address, look_turn = coalesce(w.look_turn, excluded.look_turn), unread = true;
            SELECT true
        $$
    $sql$;

    EXECUTE $sql$
        CREATE OR REPLACE FUNCTION plangate_wait_v1(about text, args jsonb) RETURNS boolean LANGUAGE sql AS
            'SELECT plangate_wake_v1(about, args)'
    $sql$;

    EXECUTE $sql$
        CREATE OR REPLACE FUNCTION plangate_return_v1(job bigint, run integer, seconds double precision)
        RETURNS boolean LANGUAGE plpgsql AS $$
        DECLARE
            _args jsonb;
        BEGIN
            DELETE FROM procrastinate_jobs j WHERE j.id = job AND j.attempts = run AND j.status = 'doing'
                RETURNING j.args INTO _args;
            RETURN _args IS NOT NULL AND plangate_wake_v1('', _args);
        END $$
    $sql$;

    PERFORM plangate_wake_v1('', j.args) FROM (
        SELECT args FROM procrastinate_jobs WHERE status = 'todo' ORDER BY queue_name, priority DESC, id
    ) AS j;
    DELETE FROM procrastinate_jobs WHERE status = 'todo';
END $move$;
