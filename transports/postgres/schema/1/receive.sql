-- Messages are received.

-- What a client reads of a message.
CREATE TYPE {s}.delivery AS (
    id bigint, number bigint, origin bigint, enqueued timestamptz, expires timestamptz, locked_until timestamptz,
    failures integer, part smallint, state smallint, ttl_ms bigint,
    reason text, description text, source text, properties text, body bytea
);

CREATE FUNCTION {s}.ms(t timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN t IS NULL THEN NULL
        WHEN t < '9999-12-31' THEN floor(extract(epoch FROM t) * 1000)::bigint
        ELSE 253402300799999
    END
$$;

CREATE FUNCTION {s}.show(m {s}.messages, until timestamptz) RETURNS {s}.delivery LANGUAGE sql STABLE AS $$
    SELECT ROW(
        m.id, m.number, m.origin, m.enqueued, m.expires, until, m.failures, m.part, m.state, m.ttl_ms,
        m.reason, m.description, m.source, m.properties::text, m.body
    )::{s}.delivery
$$;

-- Locks up to p_max messages for p_holder under p_token, or deletes them if p_token is null; of several no more than have
-- p_bytes. The first row says when there may be more, and the others come in no order.
CREATE FUNCTION {s}.receive(
    p_entity bigint, p_part smallint, p_max integer, p_bytes bigint, p_holder integer, p_token uuid, p_session bytea,
    p_session_token uuid
) RETURNS TABLE (
    wait_us bigint, leaving boolean, more boolean,
    id bigint, number bigint, origin bigint, enqueued timestamptz, expires timestamptz, locked_until timestamptz,
    failures integer, part smallint, state smallint, ttl_ms bigint,
    reason text, description text, source text, properties text, body bytea
) LANGUAGE plpgsql
-- Statistics may be of a time when the table was empty: the plan is always by the indexes.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    e {s}.entities := {s}.entity(p_entity);
    t timestamptz;
    v_until timestamptz;
    v_due timestamptz;
    -- Those that have numbers, and those that get them now.
    v_ids bigint[];
    v_new bigint[];
    v_bytes bigint := 0;
    v_last bigint;
    v_is_plain boolean;
    v_are_others boolean;
    v_is_first boolean;
    v_count bigint;
BEGIN
    IF e.status IN (1, 4) THEN
        RAISE EXCEPTION '%', e.path USING ERRCODE = 'CN423';
    END IF;
    IF e.kind = 1 THEN
        RAISE EXCEPTION 'a topic gives no messages' USING ERRCODE = 'CN409';
    END IF;
    IF e.sessions AND p_part = 0 AND p_session IS NULL THEN
        RAISE EXCEPTION 'the entity requires sessions' USING ERRCODE = 'CN409';
    END IF;
    IF p_token IS NOT NULL THEN
        -- A lock need not outlive the server: without it the message comes again. Nor need a number: from the same messages
        -- follow the same numbers.
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    leaving := false;
    more := false;
    t := {s}.now();
    IF {s}.is_due(e.id, t) THEN
        SELECT a.leaving, a.more_due INTO leaving, more FROM {s}.advance(e) AS a;
        IF more THEN
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    v_is_plain := p_part = 0 AND p_session IS NULL AND e.forward_to IS NULL;
    IF NOT v_is_plain AND (p_part = 0 OR e.kind = 2) AND {s}.has_arrived(e.id) THEN
        SELECT a.leaving, a.more_due OR a.more_new INTO leaving, more FROM {s}.advance(e) AS a;
    END IF;
    FOR attempt IN 1 .. 3 LOOP
        t := {s}.now();
        v_until := t + e.lock_ms * interval '1 millisecond';
        IF p_session IS NOT NULL THEN
            SELECT until INTO v_until FROM {s}.sessions
            WHERE entity = e.id AND session = p_session AND token = p_session_token AND until > t;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'the lock of the session is lost' USING ERRCODE = 'CN411';
            END IF;
            v_ids := ARRAY(
                SELECT id FROM {s}.messages
                WHERE entity = e.id AND state = 1 AND session = p_session AND session IS NOT NULL AND expires > t
                ORDER BY number LIMIT p_max FOR UPDATE SKIP LOCKED
            );
        ELSE
            v_ids := ARRAY(
                SELECT id FROM {s}.messages
                WHERE entity = e.id AND part = p_part AND state = 1 AND expires > t
                ORDER BY number LIMIT p_max FOR UPDATE SKIP LOCKED
            );
        END IF;
        IF v_ids <> '{}' THEN
            SELECT array_agg(id), sum(size) INTO v_ids, v_bytes FROM (
                SELECT id, size, sum(size) OVER (ORDER BY number) - size AS before FROM {s}.messages WHERE id = ANY (v_ids)
            ) AS ready WHERE before < p_bytes;
        END IF;
        EXIT WHEN NOT v_is_plain OR cardinality(v_ids) >= p_max OR v_bytes >= p_bytes OR attempt = 3;
        -- Messages that are received at once are numbered and locked in one write.
        SELECT array_agg(id), bool_or(is_other), (SELECT last FROM {s}.numbers WHERE entity = e.id)
        INTO v_new, v_are_others, v_last FROM (
            SELECT id, part <> 0 OR (at > t) IS TRUE OR expires <= t AS is_other, sum(size) OVER (ORDER BY id) - size AS before
            FROM (
                SELECT id, size, part, at, expires FROM {s}.messages WHERE entity = e.id AND state = 0
                ORDER BY id LIMIT p_max - cardinality(v_ids)
            ) AS arrived
        ) AS arrived WHERE before < p_bytes - v_bytes;
        EXIT WHEN v_new IS NULL;
        SELECT last = v_last INTO v_is_first FROM {s}.numbers WHERE entity = e.id FOR UPDATE SKIP LOCKED;
        EXIT WHEN v_is_first AND NOT v_are_others;
        v_new := NULL;
        IF v_is_first IS NULL OR v_are_others THEN
            -- Another is numbering, or some of them are not to be received: a batch is numbered first, for all.
            SELECT leaving OR a.leaving INTO leaving FROM {s}.advance(e) AS a;
        END IF;
    END LOOP;
    v_new := coalesce(v_new, '{}');
    v_due := CASE WHEN p_session IS NULL THEN v_until ELSE 'infinity' END;
    IF v_ids = '{}' AND v_new = '{}' THEN
        more := more OR v_is_plain AND {s}.has_arrived(e.id);
        wait_us := {s}.next_due(e.id, t);
        RETURN NEXT;
        RETURN;
    END IF;
    more := false;
    RETURN NEXT;
    IF v_new <> '{}' THEN
        UPDATE {s}.numbers SET last = v_last + cardinality(v_new) WHERE entity = e.id;
    END IF;
    IF p_token IS NULL THEN
        RETURN QUERY
            DELETE FROM {s}.messages AS m USING unnest(v_ids || v_new) WITH ORDINALITY AS a (id, position) WHERE m.id = a.id
            RETURNING
                NULL::bigint, false, false,
                m.id, coalesce(m.number, v_last + a.position - cardinality(v_ids)), m.origin, m.enqueued, m.expires,
                NULL::timestamptz, m.failures, m.part, m.state, m.ttl_ms, m.reason, m.description, m.source,
                m.properties::text, m.body;
    ELSE
        RETURN QUERY
            UPDATE {s}.messages AS m SET
                number = coalesce(m.number, v_last + a.position - cardinality(v_ids)),
                state = 2, token = p_token, holder = p_holder, due = v_due
            FROM unnest(v_ids || v_new) WITH ORDINALITY AS a (id, position) WHERE m.id = a.id
            RETURNING
                NULL::bigint, false, false,
                m.id, m.number, m.origin, m.enqueued, m.expires, v_until, m.failures, m.part, m.state, m.ttl_ms,
                m.reason, m.description, m.source, m.properties::text, m.body;
    END IF;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count < cardinality(v_ids) + cardinality(v_new) THEN
        -- One that was to get a number is gone, and its number is not to be left out.
        RAISE EXCEPTION 'messages were removed meanwhile' USING ERRCODE = '40001';
    END IF;
END $$;

-- Locks messages that were set aside: all, or none.
CREATE FUNCTION {s}.receive_deferred(
    p_entity bigint, p_part smallint, p_numbers bigint[], p_holder integer, p_token uuid,
    p_session bytea, p_session_token uuid
) RETURNS SETOF {s}.delivery LANGUAGE plpgsql AS $$
DECLARE
    e {s}.entities := {s}.entity(p_entity);
    t timestamptz;
    v_until timestamptz;
    v_ids bigint[];
BEGIN
    IF e.status IN (1, 4) THEN
        RAISE EXCEPTION '%', e.path USING ERRCODE = 'CN423';
    END IF;
    IF {s}.is_due(e.id, {s}.now()) THEN
        PERFORM {s}.advance(e);
    END IF;
    t := {s}.now();
    v_until := t + e.lock_ms * interval '1 millisecond';
    IF p_session IS NOT NULL THEN
        SELECT until INTO v_until FROM {s}.sessions
        WHERE entity = e.id AND session = p_session AND token = p_session_token AND until > t;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the lock of the session is lost' USING ERRCODE = 'CN411';
        END IF;
    END IF;
    v_ids := ARRAY(
        SELECT id FROM {s}.messages
        WHERE entity = e.id AND part = p_part AND number = ANY (p_numbers) AND state = 3 AND state <> 0 AND expires > t
            AND (NOT e.sessions OR session IS NOT DISTINCT FROM p_session)
        -- One that is locked for a moment is not missing.
        ORDER BY id FOR UPDATE
    );
    IF cardinality(v_ids) < (SELECT count(DISTINCT n) FROM unnest(p_numbers) AS n) THEN
        RAISE EXCEPTION 'not all of them are deferred here' USING ERRCODE = 'CN410';
    END IF;
    RETURN QUERY
        WITH locked AS (
            UPDATE {s}.messages AS m SET
                state = 4, token = p_token, holder = p_holder,
                due = CASE WHEN p_session IS NULL THEN v_until ELSE 'infinity' END
            WHERE id = ANY (v_ids) RETURNING m.number, {s}.show(m, v_until) AS shown
        ) SELECT (shown).* FROM locked ORDER BY number;
END $$;
