-- Version 5. The tables stay as they are, and clients of version 4 call the same functions.

-- Keeps the lock of a session until this transaction ends. Who ends the lock waits for that, or comes back later: otherwise it
-- would not see the messages that are locked here, and nothing would release them. Does not wait for one who is about to end it.
CREATE FUNCTION {s}.keep_session(p_entity bigint, p_session bytea, p_token uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM {s}.sessions
    WHERE entity = p_entity AND session = p_session AND token = p_token AND until > {s}.now() FOR KEY SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lock of the session is lost' USING ERRCODE = 'CN411';
    END IF;
END $$;

-- Locks up to p_max messages for p_holder under p_token, or deletes them if p_token is null; of several no more than have
-- p_bytes. The first row says when there may be more, or that it is `enqueued` now, and the others come in no order.
CREATE OR REPLACE FUNCTION {s}.receive(
    p_entity bigint, p_part smallint, p_session_token uuid, p_session bytea, p_token uuid, p_max integer, p_bytes bigint,
    p_holder integer
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
    e {s}.entities;
    t timestamptz;
    v_until timestamptz;
    v_is_plain boolean;
    -- Those that have rows of their own.
    v_ids bigint[] := '{}';
    v_bytes bigint := 0;
    -- The others: ids without a gap, the number before each run, and what is left of the last batch.
    v_runs bigint[] := '{}';
    v_counts integer[] := '{}';
    v_before bigint[] := '{}';
    v_batches bigint[] := '{}';
    v_rest bigint;
    v_taken integer;
    v_count integer := 0;
    v_size integer := 0;
    v_last bigint;
    -- When the first of the batches expires.
    v_due timestamptz := 'infinity';
    v_locked bigint;
    v_are_others boolean;
    v_found bigint;
    v_setting text;
    b record;
BEGIN
    SELECT own.* INTO e FROM {s}.entities AS own WHERE own.id = p_entity;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such entity' USING ERRCODE = 'CN404';
    ELSIF e.status IN (1, 4) THEN
        RAISE EXCEPTION '%', e.path USING ERRCODE = 'CN423';
    END IF;
    IF e.kind = 1 THEN
        RAISE EXCEPTION 'a topic gives no messages' USING ERRCODE = 'CN409';
    END IF;
    IF e.sessions AND p_part = 0 AND p_session IS NULL THEN
        RAISE EXCEPTION 'the entity requires sessions' USING ERRCODE = 'CN409';
    END IF;
    IF p_token IS NOT NULL THEN
        -- A lock need not outlive the server: without it the message is redelivered. Nor need a number: the same messages get
        -- the same numbers, behind any whose commit was stored and not visible yet.
        v_setting := set_config('synchronous_commit', 'off', true);
    END IF;
    leaving := false;
    more := false;
    v_is_plain := p_part = 0 AND {s}.is_plain(e);
    t := {s}.now();
    IF v_is_plain THEN
        -- Most receives find batches alone, and nothing that is due: what the statements below ask one after the other.
        FOR b IN
            SELECT
                n.last, first.id, first.count, first.taken, first.size, first.due,
                EXISTS (
                    SELECT FROM {s}.messages AS m WHERE m.entity = e.id AND m.part = 0 AND m.state = 1
                ) OR EXISTS (
                    SELECT FROM {s}.messages AS m WHERE m.entity = e.id AND m.state = 0
                ) OR EXISTS (
                    SELECT FROM {s}.messages AS m
                    WHERE m.entity = e.id AND m.due < 'infinity' AND m.due <= t AND m.state > 0
                ) OR EXISTS (
                    SELECT FROM {s}.locks AS l WHERE l.entity = e.id AND l.until <= t
                ) OR EXISTS (
                    SELECT FROM {s}.batches AS d WHERE d.entity = e.id AND d.due < 'infinity' AND d.due <= t
                ) AS are_others
            FROM {s}.numbers AS n, {s}.batches AS first
            WHERE n.entity = e.id AND first.entity = e.id ORDER BY first.id
        LOOP
            EXIT WHEN b.are_others;
            v_last := b.last;
            v_taken := least(b.count - b.taken, p_max - v_count);
            v_runs := v_runs || (b.id + b.taken);
            v_counts := v_counts || v_taken;
            v_before := v_before || (v_last + v_count);
            v_count := v_count + v_taken;
            v_size := greatest(v_size, b.size);
            v_due := least(v_due, b.due);
            IF b.taken + v_taken < b.count THEN
                v_rest := b.id;
                v_taken := b.taken + v_taken;
                EXIT;
            END IF;
            v_batches := v_batches || b.id;
            EXIT WHEN v_count >= p_max;
        END LOOP;
        IF v_count > 0 THEN
            -- One at a time gives numbers. If none has since, none has taken of these batches. They may have expired in that time.
            SELECT last INTO v_locked FROM {s}.numbers WHERE entity = e.id FOR UPDATE;
            t := {s}.now();
            IF v_locked = v_last AND v_due > t THEN
                v_until := t + e.lock_ms * interval '1 millisecond';
            ELSE
                v_runs := '{}';
                v_counts := '{}';
                v_before := '{}';
                v_batches := '{}';
                v_rest := NULL;
                v_count := 0;
                v_size := 0;
            END IF;
        END IF;
    END IF;
    IF v_count = 0 AND {s}.is_due(e.id, t) THEN
        SELECT a.leaving, a.more_due INTO leaving, more FROM {s}.advance(e) AS a;
        IF more THEN
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    -- Copies may be dead letters when they arrive.
    IF NOT v_is_plain AND (p_part = 0 AND {s}.has_arrived(e.id) OR e.kind = 2 AND {s}.has_others(e.id)) THEN
        SELECT a.leaving, a.more_due OR a.more_new INTO leaving, more FROM {s}.advance(e) AS a;
    END IF;
    IF v_is_plain AND v_count = 0 THEN
        SELECT last INTO v_last FROM {s}.numbers WHERE entity = e.id;
    END IF;
    FOR attempt IN 1 .. 3 LOOP
        EXIT WHEN v_count > 0;
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
        EXIT WHEN NOT v_is_plain OR cardinality(v_ids) >= p_max OR v_bytes >= p_bytes OR NOT {s}.has_arrived(e.id);
        -- One at a time gives numbers.
        SELECT last INTO v_locked FROM {s}.numbers WHERE entity = e.id FOR UPDATE;
        IF v_locked IS NULL THEN
            RAISE EXCEPTION 'no such entity' USING ERRCODE = 'CN404';
        END IF;
        IF v_locked <> v_last THEN
            -- Another has given numbers meanwhile, and those messages come first.
            v_last := v_locked;
            more := attempt = 3;
            CONTINUE;
        END IF;
        v_are_others := false;
        -- By one snapshot: a later message of the same sender has a higher id.
        FOR b IN
            SELECT
                id, count, taken, size, due,
                EXISTS (SELECT FROM {s}.messages AS m WHERE m.entity = e.id AND m.state = 0) AS are_others
            FROM {s}.batches WHERE entity = e.id ORDER BY id
        LOOP
            v_are_others := b.are_others OR b.due <= t;
            EXIT WHEN v_are_others;
            v_taken := least(b.count - b.taken, p_max - cardinality(v_ids) - v_count);
            v_runs := v_runs || (b.id + b.taken);
            v_counts := v_counts || v_taken;
            v_before := v_before || (v_last + v_count);
            v_count := v_count + v_taken;
            v_size := greatest(v_size, b.size);
            IF b.taken + v_taken < b.count THEN
                v_rest := b.id;
                v_taken := b.taken + v_taken;
                EXIT;
            END IF;
            v_batches := v_batches || b.id;
            EXIT WHEN v_count >= p_max - cardinality(v_ids);
        END LOOP;
        EXIT WHEN v_count > 0 AND NOT v_are_others;
        -- Messages with rows of their own are among them: a batch is numbered first.
        v_runs := '{}';
        v_counts := '{}';
        v_before := '{}';
        v_batches := '{}';
        v_count := 0;
        more := attempt = 3;
        PERFORM {s}.number(e, t);
        SELECT leaving OR a.leaving INTO leaving FROM {s}.advance(e) AS a;
        SELECT last INTO v_last FROM {s}.numbers WHERE entity = e.id;
    END LOOP;
    IF p_session IS NOT NULL AND v_ids <> '{}' THEN
        PERFORM {s}.keep_session(e.id, p_session, p_session_token);
    END IF;
    IF v_count > 0 AND v_bytes + v_size::bigint * v_count > p_bytes THEN
        -- They may be too large together. At least one is taken.
        SELECT count(*) INTO v_found FROM (
            SELECT sum(m.size) OVER (ORDER BY m.id) - m.size AS before
            FROM unnest(v_runs, v_counts) AS run (id, count), {s}.plain AS m
            WHERE m.id >= run.id AND m.id < run.id + run.count
        ) AS sizes WHERE before < p_bytes - v_bytes;
        FOR i IN REVERSE cardinality(v_runs) .. 1 LOOP
            EXIT WHEN v_before[i] < v_last + v_found;
            v_count := v_before[i] - v_last;
            v_runs := v_runs[:i - 1];
            v_counts := v_counts[:i - 1];
        END LOOP;
        IF v_count > v_found THEN
            v_counts[cardinality(v_counts)] := v_counts[cardinality(v_counts)] - (v_count - v_found);
            v_count := v_found;
        END IF;
        -- The last run is that of the last batch that is taken from.
        v_rest := v_runs[cardinality(v_runs)] >> 10 << 10;
        v_taken := v_runs[cardinality(v_runs)] + v_counts[cardinality(v_counts)] - v_rest;
        v_batches := v_batches[:cardinality(v_runs) - 1];
    END IF;
    IF v_ids = '{}' AND v_count = 0 THEN
        more := more OR v_is_plain AND {s}.has_arrived(e.id);
        wait_us := {s}.next_due(e.id, t);
        RETURN NEXT;
        RETURN;
    END IF;
    more := false;
    enqueued := t;
    RETURN NEXT;
    IF v_count > 0 THEN
        UPDATE {s}.numbers SET last = v_last + v_count WHERE entity = e.id;
        IF v_batches <> '{}' THEN
            DELETE FROM {s}.batches WHERE entity = e.id AND id = ANY (v_batches);
        END IF;
        IF v_rest IS NOT NULL THEN
            DELETE FROM {s}.batches WHERE entity = e.id AND id = v_rest AND count = v_taken;
            UPDATE {s}.batches SET taken = v_taken WHERE entity = e.id AND id = v_rest;
        END IF;
        IF p_token IS NULL THEN
            RETURN QUERY
                DELETE FROM {s}.plain AS m USING unnest(v_runs, v_counts, v_before) AS run (id, count, before)
                WHERE m.id >= run.id AND m.id < run.id + run.count
                RETURNING
                    NULL::bigint, false, false,
                    m.id, run.before + m.id - run.id + 1, coalesce(m.origin, 0), m.enqueued, {s}.expires(m), NULL::timestamptz, 0,
                    0::smallint, (-1)::smallint, m.ttl_ms, NULL::text, NULL::text, m.source, m.properties, m.body;
        ELSE
            INSERT INTO {s}.locks (token, entity, until, holder, number, ids, counts)
            VALUES (p_token, e.id, v_until, p_holder, v_last + 1, v_runs, v_counts);
        END IF;
        IF p_token IS NOT NULL AND cardinality(v_runs) = 1 THEN
            RETURN QUERY
                SELECT
                    NULL::bigint, false, false,
                    m.id, v_last + m.id - v_runs[1] + 1, coalesce(m.origin, 0), m.enqueued, {s}.expires(m), v_until, 0,
                    0::smallint, (-1)::smallint, m.ttl_ms, NULL::text, NULL::text, m.source, m.properties, m.body
                FROM {s}.plain AS m WHERE m.id >= v_runs[1] AND m.id < v_runs[1] + v_counts[1];
        ELSIF p_token IS NOT NULL THEN
            RETURN QUERY
                SELECT
                    NULL::bigint, false, false,
                    m.id, run.before + m.id - run.id + 1, coalesce(m.origin, 0), m.enqueued, {s}.expires(m), v_until, 0,
                    0::smallint, (-1)::smallint, m.ttl_ms, NULL::text, NULL::text, m.source, m.properties, m.body
                FROM unnest(v_runs, v_counts, v_before) AS run (id, count, before), {s}.plain AS m
                WHERE m.id >= run.id AND m.id < run.id + run.count;
        END IF;
        GET DIAGNOSTICS v_found = ROW_COUNT;
        IF v_found < v_count THEN
            RAISE EXCEPTION 'messages were removed meanwhile' USING ERRCODE = '40001';
        END IF;
    END IF;
    IF v_ids = '{}' THEN
        RETURN;
    ELSIF p_token IS NULL THEN
        RETURN QUERY
            DELETE FROM {s}.messages AS m WHERE m.id = ANY (v_ids)
            RETURNING
                NULL::bigint, false, false,
                m.id, m.number, m.origin, m.enqueued, m.expires, NULL::timestamptz, m.failures, m.part, m.state, m.ttl_ms,
                m.reason, m.description, m.source, m.properties, m.body;
    ELSE
        RETURN QUERY
            UPDATE {s}.messages AS m SET
                state = 2, token = p_token, holder = p_holder,
                due = CASE WHEN p_session IS NULL THEN v_until ELSE 'infinity' END
            WHERE m.id = ANY (v_ids)
            RETURNING
                NULL::bigint, false, false,
                m.id, m.number, m.origin, m.enqueued, m.expires, v_until, m.failures, m.part, m.state, m.ttl_ms,
                m.reason, m.description, m.source, m.properties, m.body;
    END IF;
END $$;

-- Locks deferred messages: all, in the order of their numbers here, or none.
CREATE OR REPLACE FUNCTION {s}.receive_deferred(
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
    -- As in receive.
    PERFORM set_config('synchronous_commit', 'off', true);
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
        WHERE entity = e.id AND part = p_part AND number = ANY (p_numbers) AND state = 3 AND expires > t
            AND (NOT e.sessions OR session IS NOT DISTINCT FROM p_session)
        -- One that is locked for a moment is not missing.
        ORDER BY id FOR UPDATE
    );
    IF cardinality(v_ids) < cardinality(p_numbers) THEN
        RAISE EXCEPTION 'not all of them are deferred here' USING ERRCODE = 'CN410';
    END IF;
    IF p_session IS NOT NULL THEN
        PERFORM {s}.keep_session(e.id, p_session, p_session_token);
    END IF;
    RETURN QUERY
        WITH locked AS (
            UPDATE {s}.messages AS m SET
                state = 4, token = p_token, holder = p_holder,
                due = CASE WHEN p_session IS NULL THEN v_until ELSE 'infinity' END
            WHERE id = ANY (v_ids) RETURNING m.number, {s}.show(m, v_until) AS shown
        ) SELECT (shown).* FROM locked ORDER BY array_position(p_numbers, number);
END $$;
