-- Deliveries are settled.

-- Settles a delivery. 0 complete, 1 abandon, 2 dead-letter, 3 defer, 4 release; 1 and 4 after a delay, if there is one. Answers 0; 1 if
-- messages wait to leave; 2 if the lock is lost, 3 if that of the session is; 4 if it is a dead letter already; 5 if the
-- entity is closed to receivers.
CREATE OR REPLACE FUNCTION {s}.settle(
    p_entity bigint, p_id bigint, p_token uuid, p_session_token uuid, p_action smallint, p_properties text, p_size integer,
    p_delay_ms bigint
) RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
    e {s}.entities;
    l {s}.locks;
    m record;
    t timestamptz;
    v_leaving boolean := false;
BEGIN
    SELECT * INTO e FROM {s}.entities WHERE id = p_entity;
    IF p_session_token IS NULL THEN
        SELECT * INTO l FROM {s}.locks WHERE token = p_token AND entity = p_entity;
        IF FOUND AND p_action = 0 AND e.status NOT IN (1, 4) AND {s}.position_of(p_id, l.ids, l.counts) IS NOT NULL THEN
            -- It may have waited for another transaction that has the row.
            DELETE FROM {s}.plain WHERE id = p_id AND l.until > {s}.now();
            IF FOUND THEN
                -- If another transaction settles the rest meanwhile, the lock is left until it runs out: neither waits for the
                -- other, whose end may be far.
                IF l.counts = '{1}' OR NOT {s}.is_shared(l) THEN
                    DELETE FROM {s}.locks WHERE token = p_token;
                END IF;
                RETURN 0;
            END IF;
        ELSIF FOUND THEN
            PERFORM {s}.pull(p_id, p_token);
        END IF;
    END IF;
    t := {s}.now();
    -- A row whose lock has run out is not kept from those who release it.
    SELECT id, entity, part, state, due, session, failures, stays, expires INTO m FROM {s}.messages
    WHERE id = p_id AND entity = p_entity AND token = p_token AND (p_session_token IS NOT NULL OR due > t) FOR UPDATE;
    t := greatest(t, {s}.now());
    IF NOT FOUND OR p_session_token IS NULL AND m.due <= t THEN
        RETURN CASE WHEN p_session_token IS NULL THEN 2 ELSE 3 END;
    END IF;
    IF p_session_token IS NOT NULL AND NOT EXISTS (
        SELECT FROM {s}.sessions
        WHERE entity = m.entity AND session = m.session AND token = p_session_token AND until > t
    ) THEN
        RETURN 3;
    END IF;
    IF e.status IN (1, 4) AND p_action <> 4 THEN
        RETURN 5;
    END IF;
    IF p_action = 2 AND m.part = 1 THEN
        RETURN 4;
    END IF;
    IF p_action = 0 THEN
        DELETE FROM {s}.messages WHERE id = p_id;
        RETURN 0;
    END IF;
    IF p_properties IS NOT NULL THEN
        UPDATE {s}.messages SET properties = p_properties, size = p_size WHERE id = p_id;
    END IF;
    IF p_action = 3 THEN
        UPDATE {s}.messages SET state = 3, token = NULL, holder = NULL, due = 'infinity' WHERE id = p_id;
    ELSIF p_action = 2 THEN
        v_leaving := e.forward_dead_to IS NOT NULL AND NOT m.stays;
        UPDATE {s}.messages SET
            part = 1, state = CASE WHEN v_leaving THEN 7 ELSE 1 END, token = NULL, holder = NULL, due = 'infinity',
            expires = 'infinity', session = NULL, source = NULL, reason = NULL, description = NULL
        WHERE id = p_id;
    ELSE
        PERFORM {s}.unlock(e, ARRAY[p_id], t, CASE WHEN p_action = 4 THEN 0 ELSE 1 END);
        IF p_delay_ms IS NOT NULL THEN
            UPDATE {s}.messages SET state = 6, due = t + p_delay_ms * interval '1 millisecond'
            WHERE id = p_id AND part = 0 AND state = 1;
        END IF;
        v_leaving := (e.forward_to IS NOT NULL OR e.forward_dead_to IS NOT NULL)
            AND EXISTS (SELECT FROM {s}.messages WHERE id = p_id AND state = 7);
    END IF;
    RETURN CASE WHEN v_leaving THEN 1 ELSE 0 END;
END $$;
