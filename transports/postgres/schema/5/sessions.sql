-- Sessions.

-- Locks the session with the oldest message of those that nobody holds. Its id is null if there is none.
CREATE OR REPLACE FUNCTION {s}.next_session(p_entity bigint, p_holder integer, p_token uuid)
RETURNS TABLE (session bytea, until bigint, lock_ms bigint, wait_us bigint, leaving boolean, more boolean) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    e {s}.entities := {s}.entity(p_entity);
    v_next record;
    v_taken bytea;
BEGIN
    PERFORM {s}.check_session(e);
    SELECT s.leaving, s.more INTO leaving, more FROM {s}.step(e.id) AS s;
    lock_ms := e.lock_ms;
    -- Mostly one of the oldest messages is of a session that is free.
    FOR v_next IN
        SELECT oldest.session FROM (
            SELECT m.session, m.number FROM {s}.messages AS m
            WHERE m.entity = e.id AND m.part = 0 AND m.state = 1 ORDER BY m.number LIMIT 20000
        ) AS oldest
        WHERE oldest.session IS NOT NULL AND NOT EXISTS (
            SELECT FROM {s}.sessions AS s WHERE s.entity = e.id AND s.session = oldest.session AND s.token IS NOT NULL
        ) ORDER BY oldest.number
    LOOP
        -- Another accept has taken it meanwhile, and it may have many messages.
        CONTINUE WHEN v_next.session = v_taken;
        until := {s}.take_session(e, v_next.session, p_holder, p_token);
        IF until IS NOT NULL THEN
            session := v_next.session;
            RETURN NEXT;
            RETURN;
        END IF;
        v_taken := v_next.session;
    END LOOP;
    FOR v_next IN
        -- From session to session, and not from message to message.
        WITH RECURSIVE first AS (
            (
                SELECT m.session, m.number FROM {s}.messages AS m
                WHERE m.entity = e.id AND m.state = 1 AND m.session IS NOT NULL ORDER BY m.session, m.number LIMIT 1
            ) UNION ALL (
                SELECT following.* FROM first, LATERAL (
                    SELECT m.session, m.number FROM {s}.messages AS m
                    WHERE m.entity = e.id AND m.state = 1 AND m.session IS NOT NULL AND m.session > first.session
                    ORDER BY m.session, m.number LIMIT 1
                ) AS following
            )
        )
        SELECT first.session FROM first
        WHERE NOT EXISTS (
            SELECT FROM {s}.sessions AS s WHERE s.entity = e.id AND s.session = first.session AND s.token IS NOT NULL
        ) ORDER BY first.number
    LOOP
        until := {s}.take_session(e, v_next.session, p_holder, p_token);
        IF until IS NOT NULL THEN
            session := v_next.session;
            RETURN NEXT;
            RETURN;
        END IF;
    END LOOP;
    wait_us := {s}.next_due(e.id, {s}.now());
    RETURN NEXT;
END $$;
