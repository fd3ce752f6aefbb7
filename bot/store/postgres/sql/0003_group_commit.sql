-- Deliveries that arrive together are stored in one transaction.

-- Store deliveries, each with a guid of its own, and wake their threads: all or none. Return the deliveries that were
-- not known with their outcome: stored, or joined (a look waits already). Every transaction takes the guids before the
-- threads, and both in order, so that two of them never wait for each other.
CREATE FUNCTION plangate_store_all_v1(guids text[], events text[], abouts text[], args jsonb[])
RETURNS TABLE (guid text, outcome text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _new text[];
    _thread record;
BEGIN
    WITH made AS (
        INSERT INTO plangate_deliveries AS d (guid, event)
            SELECT g.guid, g.event FROM unnest(guids, events) AS g (guid, event) ORDER BY g.guid
            ON CONFLICT DO NOTHING RETURNING d.guid
    )
    SELECT array_agg(made.guid) INTO _new FROM made;
    FOR _thread IN
        SELECT d.about, array_agg(d.guid ORDER BY d.place) AS guids, (array_agg(d.args ORDER BY d.place))[1] AS args
            FROM unnest(guids, abouts, args) WITH ORDINALITY AS d (guid, about, args, place)
            WHERE d.guid = ANY(_new) GROUP BY d.about ORDER BY d.about
    LOOP
        outcome := CASE WHEN plangate_wake_v1(_thread.about, _thread.args) THEN 'stored' ELSE 'joined' END;
        FOREACH guid IN ARRAY _thread.guids LOOP
            RETURN NEXT;
            outcome := 'joined';
        END LOOP;
    END LOOP;
END;
$$;

-- The ends of the line, and of each installation's part of it, are found without reading the jobs between them.
CREATE INDEX plangate_jobs_by_turn ON procrastinate_jobs (task_name, priority) WHERE status = 'todo';
CREATE INDEX plangate_jobs_by_installation ON procrastinate_jobs (task_name, (args->'installation'), priority)
    WHERE status = 'todo';

-- In PL/pgSQL, because it keeps the plans of its queries, and making them takes longer than running them.
CREATE OR REPLACE FUNCTION plangate_turn_v1(task text, highest integer, args jsonb) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    _last integer;
    _first integer;
BEGIN
    SELECT j.priority INTO _last FROM procrastinate_jobs j WHERE j.status = 'todo' AND j.task_name = task
        AND j.args->'installation' = plangate_turn_v1.args->'installation' ORDER BY j.priority LIMIT 1;
    SELECT j.priority INTO _first FROM procrastinate_jobs j WHERE j.status = 'todo' AND j.task_name = task
        ORDER BY j.priority DESC LIMIT 1;
    RETURN least(coalesce(_first, highest), coalesce(_last - 1, highest));
END;
$$;
