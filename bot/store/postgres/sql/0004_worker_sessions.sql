-- The jobs of a worker whose process ended are taken over at once.

-- Workers that keep a session of the database open, and in it an advisory lock on their number. The server releases the
-- lock when the session ends. A worker that was paused, or whose machine vanished, still holds it: its heart tells.
CREATE TABLE plangate_worker_sessions (
    worker bigint PRIMARY KEY REFERENCES procrastinate_workers (id) ON DELETE CASCADE
);

-- Record that a worker keeps this session open. Return false if it was declared dead. The lock is a shared one, because
-- the session before may not have ended yet.
CREATE FUNCTION plangate_attach_v1(number bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_lock_shared(1886150759, (number % 2147483647)::integer);
    INSERT INTO plangate_worker_sessions (worker) SELECT w.id FROM procrastinate_workers w WHERE w.id = number
        ON CONFLICT DO NOTHING;
    RETURN EXISTS (SELECT FROM plangate_worker_sessions s WHERE s.worker = number);
END;
$$;

-- Return the workers whose session has ended.
CREATE FUNCTION plangate_lost_workers_v1() RETURNS SETOF bigint LANGUAGE sql AS $$
    SELECT s.worker FROM plangate_worker_sessions s WHERE s.worker % 2147483647 NOT IN (
        SELECT l.objid::bigint FROM pg_locks l
            WHERE l.locktype = 'advisory' AND l.classid = 1886150759 AND l.objsubid = 2 AND l.granted
            AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    )
$$;

-- Forget those of these workers whose session has ended, and give back the jobs of workers that are not known. Return
-- how many jobs there were.
CREATE FUNCTION plangate_dismiss_v1(workers bigint[]) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(1886150760, 0) THEN
        RETURN 0;
    END IF;
    DELETE FROM procrastinate_workers w
        WHERE w.id = ANY(workers) AND w.id IN (SELECT plangate_lost_workers_v1());
    RETURN plangate_take_over_v1(86400 * 365);
END;
$$;

-- The same as before, but by one process at a time, and in the order in which plangate_store_all_v1 and plangate_wake_v1
-- defer jobs: two takings over, or one and the storing of deliveries, could wait for each other in a circle.
CREATE OR REPLACE FUNCTION plangate_take_over_v1(seconds double precision) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    _oldest timestamptz := now() - make_interval(secs => seconds);
    _job record;
    _count integer := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(1886150760, 0) THEN
        RETURN 0;
    END IF;
    FOR _job IN
        SELECT j.id, j.attempts FROM procrastinate_jobs j
            WHERE j.status = 'doing'
            AND NOT EXISTS (
                SELECT FROM procrastinate_workers w WHERE w.id = j.worker_id AND w.last_heartbeat > _oldest
            )
            ORDER BY regexp_replace(j.lock, '^listen ', ''), j.task_name
            FOR UPDATE SKIP LOCKED
    LOOP
        _count := _count + plangate_return_v1(_job.id, _job.attempts, 0)::integer;
    END LOOP;
    DELETE FROM procrastinate_workers w WHERE w.last_heartbeat <= _oldest;
    RETURN _count;
END;
$$;
