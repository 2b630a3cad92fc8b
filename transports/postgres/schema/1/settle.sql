-- Deliveries are settled, given back and renewed.

-- Settles a delivery. 0 complete, 1 abandon, 2 dead-letter, 3 defer, 4 release; 1 and 4 after a delay, if there is one. Answers 0; 1 if
-- messages wait to leave; 2 if the lock is lost, 3 if that of the session is; 4 if it is a dead letter already; 5 if the
-- entity is closed to receivers.
CREATE FUNCTION {s}.settle(
    p_id bigint, p_token uuid, p_session_token uuid, p_action smallint, p_properties text, p_size integer, p_delay_ms bigint
) RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
    e {s}.entities;
    m record;
    t timestamptz := {s}.now();
    v_leaving boolean := false;
BEGIN
    -- A row whose lock has run out is not kept from those who give it back.
    SELECT id, entity, part, state, due, session, failures, stays, expires INTO m FROM {s}.messages
    WHERE id = p_id AND token = p_token AND (p_session_token IS NOT NULL OR due > t) FOR UPDATE;
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
    SELECT * INTO e FROM {s}.entities WHERE id = m.entity;
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
        UPDATE {s}.messages SET properties = p_properties::json, size = p_size WHERE id = p_id;
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
        v_leaving := e.forward_dead_to IS NOT NULL AND EXISTS (SELECT FROM {s}.messages WHERE id = p_id AND state = 7);
    END IF;
    RETURN CASE WHEN v_leaving THEN 1 ELSE 0 END;
END $$;

-- Completes deliveries of no session. Answers with those that are; why others are not, settle says of each.
CREATE FUNCTION {s}.complete(p_ids bigint[], p_tokens uuid[]) RETURNS TABLE (id bigint, token uuid)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        DELETE FROM {s}.messages AS m USING unnest(p_ids, p_tokens) AS asked (id, token), {s}.entities AS e
        -- It may have waited for another who has the row.
        WHERE m.id = asked.id AND m.token = asked.token AND m.due > {s}.now() AND m.session IS NULL
            AND e.id = m.entity AND e.status NOT IN (1, 4)
        RETURNING m.id, m.token;
END $$;

-- What a holder has locked at an entity, under a token or any.
CREATE FUNCTION {s}.held(p_entity bigint, p_holder integer, p_token uuid) RETURNS bigint[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    RETURN (SELECT array_agg(id) FROM (
        SELECT id, token FROM {s}.messages
        WHERE entity = p_entity AND due < 'infinity' AND state <> 0 AND holder = p_holder
        UNION ALL
        SELECT id, token FROM {s}.messages
        WHERE entity = p_entity AND state IN (2, 4) AND session IS NOT NULL AND due = 'infinity' AND holder = p_holder
    ) AS held WHERE p_token IS NULL OR token = p_token);
END $$;

-- Gives back what was locked by a receive whose answer was lost. Tells whether there was something.
CREATE FUNCTION {s}.release_all(p_entity bigint, p_holder integer, p_token uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_ids bigint[] := {s}.held(p_entity, p_holder, p_token);
BEGIN
    IF v_ids IS NULL OR NOT EXISTS (SELECT FROM {s}.entities WHERE id = p_entity) THEN
        RETURN false;
    END IF;
    PERFORM {s}.unlock({s}.entity(p_entity), ARRAY(
        SELECT id FROM {s}.messages
        WHERE id = ANY (v_ids) AND holder = p_holder AND (p_token IS NULL OR token = p_token)
        ORDER BY id FOR UPDATE SKIP LOCKED
    ), {s}.now(), 0);
    RETURN true;
END $$;

-- Extends a lock. Answers until when it holds; null if it is lost.
CREATE FUNCTION {s}.renew(p_id bigint, p_token uuid) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := {s}.now();
    v_until timestamptz;
BEGIN
    UPDATE {s}.messages AS m SET due = t + e.lock_ms * interval '1 millisecond'
    FROM {s}.entities AS e
    WHERE m.id = p_id AND m.token = p_token AND m.due > t AND m.due < 'infinity' AND e.id = m.entity
    RETURNING m.due INTO v_until;
    RETURN {s}.ms(v_until);
END $$;
