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
        v_leaving := e.forward_dead_to IS NOT NULL AND EXISTS (SELECT FROM {s}.messages WHERE id = p_id AND state = 7);
    END IF;
    RETURN CASE WHEN v_leaving THEN 1 ELSE 0 END;
END $$;

-- Completes deliveries of no session. Answers with those that are not completed; why not, settle says of each.
CREATE OR REPLACE FUNCTION {s}.complete(p_tokens uuid[], p_ids bigint[]) RETURNS TABLE (id bigint, token uuid)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_tokens uuid[];
    l {s}.locks;
    v_shared bigint[];
    v_ids bigint[];
    v_done bigint[] := '{}';
    v_done_tokens uuid[] := '{}';
    v_own bigint[];
    v_own_tokens uuid[];
    v_is_open boolean;
    v_is_whole boolean;
BEGIN
    IF cardinality(p_ids) = 1 THEN
        -- As the loop below does, in fewer statements.
        SELECT own.* INTO l FROM {s}.locks AS own WHERE own.token = p_tokens[1];
        v_is_whole := l.counts = '{1}' AND l.ids = p_ids;
        IF FOUND AND (v_is_whole OR {s}.position_of(p_ids[1], l.ids, l.counts) IS NOT NULL) THEN
            DELETE FROM {s}.plain AS m USING {s}.entities AS e
            WHERE m.id = p_ids[1] AND l.until > {s}.now() AND e.id = l.entity AND e.status NOT IN (1, 4);
            IF FOUND THEN
                IF NOT v_is_whole THEN
                    PERFORM FROM {s}.locks AS own WHERE own.token = l.token FOR UPDATE;
                END IF;
                IF v_is_whole OR NOT {s}.is_shared(l) THEN
                    DELETE FROM {s}.locks AS own WHERE own.token = l.token;
                END IF;
                RETURN;
            END IF;
        END IF;
        v_tokens := p_tokens;
    ELSE
        v_tokens := ARRAY(SELECT DISTINCT token FROM unnest(p_tokens) AS asked (token));
    END IF;
    FOR l IN SELECT * FROM {s}.locks WHERE token = ANY (v_tokens) ORDER BY token LOOP
        SELECT e.status NOT IN (1, 4) INTO v_is_open FROM {s}.entities AS e WHERE e.id = l.entity;
        CONTINUE WHEN v_is_open IS NOT TRUE;
        IF cardinality(v_tokens) = 1 THEN
            v_ids := {s}.among(p_ids, l.ids, l.counts);
        ELSE
            v_ids := {s}.among(
                ARRAY(SELECT asked.id FROM unnest(p_ids, p_tokens) AS asked (id, token) WHERE asked.token = l.token),
                l.ids, l.counts
            );
        END IF;
        -- It may have waited for another transaction that has a row.
        WITH completed AS (
            DELETE FROM {s}.plain AS m WHERE m.id = ANY (v_ids) AND l.until > {s}.now() RETURNING m.id
        ) SELECT array_agg(completed.id) INTO v_shared FROM completed;
        CONTINUE WHEN v_shared IS NULL;
        v_is_whole := cardinality(v_shared) = (SELECT sum(count) FROM unnest(l.counts) AS count);
        IF NOT v_is_whole THEN
            -- One after the other: two that complete what is left at the same time would each find the messages of the other.
            PERFORM FROM {s}.locks AS own WHERE own.token = l.token FOR UPDATE;
        END IF;
        IF v_is_whole OR NOT {s}.is_shared(l) THEN
            DELETE FROM {s}.locks AS own WHERE own.token = l.token;
        END IF;
        v_done := v_done || v_shared;
        v_done_tokens := v_done_tokens || array_fill(l.token, ARRAY[cardinality(v_shared)]);
        IF cardinality(v_done) = cardinality(p_ids) THEN
            RETURN;
        END IF;
    END LOOP;
    -- One message may be asked for by an old token and by its own.
    SELECT array_agg(left_over.id), array_agg(left_over.token) INTO v_own, v_own_tokens FROM (
        SELECT unnest(p_ids) AS id, unnest(p_tokens) AS token EXCEPT SELECT unnest(v_done), unnest(v_done_tokens)
    ) AS left_over;
    WITH completed AS (
        DELETE FROM {s}.messages AS m USING unnest(v_own, v_own_tokens) AS asked (id, token), {s}.entities AS e
        WHERE m.id = asked.id AND m.token = asked.token AND m.state > 0 AND m.due > {s}.now() AND m.session IS NULL
            AND e.id = m.entity AND e.status NOT IN (1, 4)
        RETURNING m.id, m.token
    ) SELECT array_agg(completed.id), array_agg(completed.token) INTO v_done, v_done_tokens FROM completed;
    RETURN QUERY
        SELECT unnest(v_own), unnest(v_own_tokens) EXCEPT SELECT unnest(v_done), unnest(v_done_tokens);
END $$;

-- As close_session, for who does not wait for another transaction that is about to settle a message of the session. One whose lock is
-- lost touches no message: who accepts the session would take that for such a transaction.
CREATE FUNCTION {s}.drop_session(p_entity bigint, p_session bytea, p_token uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM {s}.sessions
    WHERE entity = p_entity AND session = p_session AND token = p_token AND until > {s}.now() FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    ELSIF {s}.is_kept(p_entity, p_session) THEN
        RAISE EXCEPTION 'another transaction is about to settle a message of the session' USING ERRCODE = '55P03';
    END IF;
    RETURN {s}.close_session(p_entity, p_session, p_token);
END $$;
