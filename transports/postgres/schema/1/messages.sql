-- Messages: sent, received, settled, looked at.

-- Takes messages. All of them, or an error and none. Answers for each the row, or null for a duplicate, and of a duplicate
-- the row of the first.
CREATE FUNCTION {s}.send(
    p_entity bigint, p_properties text[], p_bodies bytea[], p_sizes integer[], p_ids bytea[], p_sessions bytea[],
    p_ats bigint[], p_ttls bigint[], p_origin bigint, p_hops smallint, p_source text
) RETURNS TABLE (message bigint, first bigint) LANGUAGE plpgsql AS $$
DECLARE
    e {s}.entities := {s}.entity(p_entity);
    t timestamptz;
    v_ttl bigint;
    v_at timestamptz;
    v_expires timestamptz;
BEGIN
    IF e.status IN (1, 3) THEN
        RAISE EXCEPTION '%', e.path USING ERRCODE = 'CN423';
    END IF;
    IF e.sessions AND EXISTS (SELECT FROM unnest(p_sessions) AS s WHERE s IS NULL) THEN
        RAISE EXCEPTION 'the entity requires sessions and the message has no SessionId' USING ERRCODE = 'CN409';
    END IF;
    IF EXISTS (SELECT FROM unnest(p_sizes) AS s WHERE s > e.max_message_size) THEN
        RAISE EXCEPTION 'at most % bytes', e.max_message_size USING ERRCODE = 'CN413';
    END IF;
    IF e.window_ms IS NULL THEN
        t := {s}.now();
        RETURN QUERY
            INSERT INTO {s}.messages AS m (
                entity, enqueued, expires, due, at, ttl_ms, size, session, properties, body, origin, hops, source
            )
            SELECT
                e.id, t, s.expires, CASE WHEN s.at > t THEN s.at ELSE s.expires END, s.at, s.ttl_ms, s.size,
                CASE WHEN e.sessions THEN s.session END, s.properties::json, s.body, p_origin, p_hops, p_source
            FROM (
                SELECT
                    a.*, to_timestamp(a.at_ms / 1000.0) AS at, least(a.own_ttl_ms, e.ttl_ms) AS ttl_ms,
                    coalesce(t + least(a.own_ttl_ms, e.ttl_ms) * interval '1 millisecond', 'infinity') AS expires
                FROM unnest(p_properties, p_bodies, p_sizes, p_sessions, p_ats, p_ttls)
                    WITH ORDINALITY AS a (properties, body, size, session, at_ms, own_ttl_ms, position)
            ) AS s
            ORDER BY s.position
            RETURNING m.id, NULL::bigint;
        RETURN;
    END IF;
    FOR i IN 1 .. coalesce(array_length(p_sizes, 1), 0) LOOP
        t := {s}.now();
        message := NULL;
        first := NULL;
        INSERT INTO {s}.ids AS seen (entity, id, until)
        VALUES (e.id, p_ids[i], t + e.window_ms * interval '1 millisecond')
        ON CONFLICT (entity, id) DO UPDATE SET until = excluded.until, message = NULL WHERE seen.until <= t;
        IF NOT FOUND THEN
            SELECT ids.message INTO first FROM {s}.ids WHERE entity = e.id AND id = p_ids[i];
        ELSE
            v_ttl := least(p_ttls[i], e.ttl_ms);
            v_at := to_timestamp(p_ats[i] / 1000.0);
            v_expires := coalesce(t + v_ttl * interval '1 millisecond', 'infinity');
            INSERT INTO {s}.messages AS m (
                entity, enqueued, expires, due, at, ttl_ms, size, session, properties, body, origin, hops, source
            ) VALUES (
                e.id, t, v_expires, CASE WHEN v_at > t THEN v_at ELSE v_expires END, v_at, v_ttl, p_sizes[i],
                CASE WHEN e.sessions THEN p_sessions[i] END, p_properties[i]::json, p_bodies[i],
                p_origin, p_hops, p_source
            ) RETURNING m.id INTO message;
            IF v_at > t THEN
                UPDATE {s}.ids SET message = send.message WHERE entity = e.id AND id = p_ids[i];
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- The numbers of rows, after a batch was numbered: 0 for one that is none any more, null for one that has none yet.
CREATE FUNCTION {s}.numbers_of(p_entity bigint, p_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {s}.step(p_entity);
    RETURN ARRAY(
        SELECT CASE WHEN m.id IS NULL THEN 0 ELSE m.number END FROM unnest(p_ids) WITH ORDINALITY AS asked (id, position)
        LEFT JOIN {s}.messages AS m ON m.id = asked.id ORDER BY position
    );
END $$;

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

-- Settles a delivery. 0 complete, 1 abandon, 2 dead-letter, 3 defer, 4 release, 5 give back after a delay. Answers 0; 1 if
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
        IF p_action = 5 THEN
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

-- Looks at messages from a number on; of a topic, at those that wait for their time.
CREATE FUNCTION {s}.peek(p_entity bigint, p_part smallint, p_from bigint, p_max bigint, p_session bytea)
RETURNS TABLE (leaving boolean, more boolean, delivery {s}.delivery) LANGUAGE plpgsql AS $$
DECLARE
    e {s}.entities := {s}.entity(p_entity);
BEGIN
    SELECT s.leaving, s.more INTO leaving, more FROM {s}.step(p_entity) AS s;
    RETURN NEXT;
    RETURN QUERY
        SELECT false, false, {s}.show(m, NULL) FROM {s}.messages AS m
        WHERE entity = e.id AND part = p_part AND number >= p_from AND state <> 0 AND (e.kind <> 1 OR state = 5)
            AND (p_session IS NULL OR session = p_session)
        ORDER BY number LIMIT p_max;
END $$;

CREATE FUNCTION {s}.counts(p_entity bigint)
RETURNS TABLE (part smallint, state smallint, count bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {s}.step(p_entity);
    RETURN QUERY
        SELECT m.part, m.state, count(*) FROM {s}.messages AS m
        WHERE entity = p_entity AND m.state <> 0 GROUP BY 1, 2
        UNION ALL
        SELECT m.part, (CASE WHEN at > {s}.now() THEN 5 ELSE 1 END)::smallint, count(*) FROM {s}.messages AS m
        WHERE entity = p_entity AND m.state = 0 GROUP BY 1, 2;
END $$;

-- Removes messages that nobody holds and that are not scheduled, the oldest first.
CREATE FUNCTION {s}.purge(p_entity bigint, p_part smallint, p_max bigint, p_before bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
    v_more bigint;
BEGIN
    PERFORM {s}.step(p_entity);
    DELETE FROM {s}.messages WHERE id = ANY (ARRAY(
        SELECT id FROM {s}.messages
        WHERE entity = p_entity AND part = p_part AND state IN (1, 3) AND state <> 0
            AND (p_before IS NULL OR enqueued < to_timestamp(p_before / 1000.0))
        ORDER BY number LIMIT p_max FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    -- Nobody is numbering those that have none meanwhile.
    PERFORM FROM {s}.numbers WHERE entity = p_entity FOR UPDATE;
    DELETE FROM {s}.messages WHERE id = ANY (ARRAY(
        SELECT id FROM {s}.messages
        WHERE entity = p_entity AND part = p_part AND state = 0 AND (at > {s}.now()) IS NOT TRUE
            AND (p_before IS NULL OR enqueued < to_timestamp(p_before / 1000.0))
        ORDER BY id LIMIT p_max - v_count
    ));
    GET DIAGNOSTICS v_more = ROW_COUNT;
    RETURN v_count + v_more;
END $$;

-- Takes scheduled messages back: all, or none.
CREATE FUNCTION {s}.cancel(p_entity bigint, p_numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    e {s}.entities := {s}.entity(p_entity);
    v_count bigint;
BEGIN
    PERFORM {s}.step(e.id);
    DELETE FROM {s}.messages
    WHERE entity = e.id AND part = 0 AND number = ANY (p_numbers) AND state = 5 AND state <> 0;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count < (SELECT count(DISTINCT n) FROM unnest(p_numbers) AS n) THEN
        RAISE EXCEPTION 'not all of them are scheduled here' USING ERRCODE = 'CN410';
    END IF;
END $$;
