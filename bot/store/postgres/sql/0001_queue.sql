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

-- Defer a job. Return false if one with the same queueing lock waits already.
CREATE FUNCTION plangate_defer_v1(task text, queue text, priority integer, lock text, about text, args jsonb)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _queueing_lock text := task || ' ' || about;
BEGIN
    IF EXISTS (SELECT FROM procrastinate_jobs j WHERE j.queueing_lock = _queueing_lock AND j.status = 'todo') THEN
        RETURN false;
    END IF;
    PERFORM procrastinate_defer_jobs_v1(ARRAY[
        ROW(queue, task, priority, lock, _queueing_lock, args, NULL::timestamptz)::procrastinate_job_to_defer_v1
    ]);
    RETURN true;
EXCEPTION WHEN unique_violation THEN
    RETURN false;
END;
$$;

-- Return the priority with which installations take turns: behind what waits of the same installation, and beside the
-- first that waits of any other.
CREATE FUNCTION plangate_turn_v1(task text, highest integer, args jsonb) RETURNS integer LANGUAGE sql AS $$
    SELECT least(
        coalesce(max(j.priority), highest),
        coalesce(min(j.priority) FILTER (WHERE j.args->'installation' = plangate_turn_v1.args->'installation') - 1, highest)
    ) FROM procrastinate_jobs j WHERE j.status = 'todo' AND j.task_name = task
$$;

-- Make sure that a look at a thread begins after this call, and that what people say now is read although another
-- look or session of the thread runs. Return false if such a look waits already.
CREATE FUNCTION plangate_wake_v1(about text, args jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM procrastinate_jobs j WHERE j.lock = about AND j.status = 'doing') THEN
        PERFORM plangate_defer_v1('listen', 'looks', 2000000000, 'listen ' || about, about, args);
    END IF;
    RETURN plangate_defer_v1('look', 'looks', plangate_turn_v1('look', 1000000000, args), about, about, args);
END;
$$;

-- Have the next worker with a free session slot go on with a thread. A look at the thread goes first.
CREATE FUNCTION plangate_wait_v1(about text, args jsonb) RETURNS boolean LANGUAGE sql AS $$
    SELECT plangate_defer_v1('session', 'sessions', plangate_turn_v1('session', 0, args), about, about, args)
$$;

-- Store a delivery and wake its thread, both or neither. Return stored, joined (a look waits already), or duplicate.
CREATE FUNCTION plangate_store_v1(guid text, event text, about text, args jsonb) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO plangate_deliveries (guid, event) VALUES (guid, event) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'duplicate';
    END IF;
    RETURN CASE WHEN plangate_wake_v1(about, args) THEN 'stored' ELSE 'joined' END;
END;
$$;

-- Remove a job that was carried out. `run` is its number of attempts when it began: a worker that was declared dead
-- and comes back removes nothing. Return whether the job was still this worker's.
CREATE FUNCTION plangate_finish_v1(job bigint, run integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM procrastinate_jobs j WHERE j.id = job AND j.attempts = run AND j.status = 'doing';
    RETURN FOUND;
END;
$$;

-- Give a job back to the queue, to run again after some seconds; drop it if another one stands for it already.
CREATE FUNCTION plangate_return_v1(job bigint, run integer, seconds double precision)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _queue text;
BEGIN
    BEGIN
        UPDATE procrastinate_jobs j
            SET status = 'todo', attempts = attempts + 1, worker_id = NULL,
                scheduled_at = now() + make_interval(secs => seconds)
            WHERE j.id = job AND j.attempts = run AND j.status = 'doing'
            RETURNING j.queue_name INTO _queue;
    EXCEPTION WHEN unique_violation THEN
        RETURN plangate_finish_v1(job, run);
    END;
    IF _queue IS NOT NULL THEN  -- procrastinate notifies of new jobs only
        PERFORM pg_notify(
            'procrastinate_queue_v1#' || _queue, json_build_object('type', 'job_inserted', 'job_id', job)::text
        );
    END IF;
    RETURN _queue IS NOT NULL;
END;
$$;

-- Give back the jobs of workers whose heart has not beaten for some seconds, and forget those workers. Return how many
-- jobs there were.
CREATE FUNCTION plangate_take_over_v1(seconds double precision) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    _oldest timestamptz := now() - make_interval(secs => seconds);
    _job record;
    _count integer := 0;
BEGIN
    FOR _job IN
        SELECT j.id, j.attempts FROM procrastinate_jobs j
            WHERE j.status = 'doing'
            AND NOT EXISTS (
                SELECT FROM procrastinate_workers w WHERE w.id = j.worker_id AND w.last_heartbeat > _oldest
            )
            FOR UPDATE SKIP LOCKED
    LOOP
        _count := _count + plangate_return_v1(_job.id, _job.attempts, 0)::integer;
    END LOOP;
    DELETE FROM procrastinate_workers w WHERE w.last_heartbeat <= _oldest;
    RETURN _count;
END;
$$;
