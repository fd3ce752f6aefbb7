-- Once the last process of the release before has ended: its tables go, and what it had begun waits again.
DO $$
DECLARE
    _each record;
BEGIN
    IF to_regclass('procrastinate_jobs') IS NULL THEN
        RETURN;
    END IF;
    PERFORM plangate_wake_v1('', args) FROM procrastinate_jobs WHERE status IN ('todo', 'doing');
    CREATE OR REPLACE FUNCTION plangate_is_held_v1(repository bigint, number bigint) RETURNS boolean
        LANGUAGE sql STABLE AS 'SELECT false';
    FOR _each IN
        SELECT c.oid::regclass AS name FROM pg_class c
            WHERE c.relkind = 'r' AND pg_table_is_visible(c.oid)
            AND (c.relname LIKE 'procrastinate\_%' OR c.relname = 'plangate_worker_sessions')
    LOOP
        EXECUTE format('DROP TABLE %s CASCADE', _each.name);
    END LOOP;
    FOR _each IN
        SELECT p.oid::regprocedure AS name FROM pg_proc p
            WHERE pg_function_is_visible(p.oid) AND (p.proname LIKE 'procrastinate\_%' OR p.proname IN (
                'plangate_defer_v1', 'plangate_turn_v1', 'plangate_wake_v1', 'plangate_wait_v1', 'plangate_store_v1',
                'plangate_store_all_v1', 'plangate_finish_v1', 'plangate_return_v1', 'plangate_take_over_v1',
                'plangate_attach_v1', 'plangate_lost_workers_v1', 'plangate_dismiss_v1'
            ))
    LOOP
        EXECUTE format('DROP FUNCTION %s CASCADE', _each.name);
    END LOOP;
    FOR _each IN
        SELECT t.oid::regtype AS name FROM pg_type t
            WHERE pg_type_is_visible(t.oid) AND t.typname LIKE 'procrastinate\_%' AND t.typtype IN ('e', 'c')
    LOOP
        EXECUTE format('DROP TYPE IF EXISTS %s CASCADE', _each.name);
    END LOOP;
END $$;
