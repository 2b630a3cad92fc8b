-- Sequence numbers, and messages that leave the common path.

-- Numbers up to 1,000 messages that have arrived, in the order of arrival. Tells how many.
CREATE OR REPLACE FUNCTION {s}.number(e {s}.entities, t timestamptz) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_last bigint;
    v_count bigint;
    v_plain bigint;
    v_ids bigint[];
    v_batches bigint[];
    v_end bigint;
BEGIN
    IF NOT {s}.has_arrived(e.id) THEN
        RETURN 0;
    END IF;
    SELECT last INTO v_last FROM {s}.numbers WHERE entity = e.id FOR UPDATE;
    -- The settings may have changed in the wait. Who changes them has this lock as well.
    e := {s}.entity(e.id);
    -- By one snapshot: a later message of the same sender has a higher id.
    SELECT array_agg(id ORDER BY id), array_agg(DISTINCT batch) FILTER (WHERE batch IS NOT NULL) INTO v_ids, v_batches
    FROM (
        SELECT id, batch FROM (
            (
                SELECT id, NULL::bigint AS batch FROM {s}.messages
                WHERE entity = e.id AND state = 0 ORDER BY id LIMIT 1000
            )
            UNION ALL
            (
                SELECT b.id + position, b.id
                FROM (SELECT * FROM {s}.batches WHERE entity = e.id ORDER BY id LIMIT 1000) AS b,
                    generate_series(b.taken, b.count - 1) AS position
                LIMIT 1000
            )
        ) AS arrived ORDER BY id LIMIT 1000
    ) AS first;
    IF v_ids IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE {s}.messages AS m SET
        number = v_last + a.position,
        state = CASE
            WHEN m.part = 1 THEN CASE WHEN e.forward_dead_to IS NOT NULL AND NOT m.stays THEN 7 ELSE 1 END
            WHEN m.at > t THEN 5
            WHEN e.kind = 1 OR e.forward_to IS NOT NULL THEN 7
            ELSE 1
        END,
        -- A copy may be a dead letter when it arrives.
        due = CASE WHEN m.part = 1 THEN 'infinity' WHEN m.at > t THEN m.at ELSE m.expires END,
        expires = CASE WHEN m.part = 1 THEN 'infinity' ELSE m.expires END
    FROM unnest(v_ids) WITH ORDINALITY AS a (id, position)
    WHERE m.id = a.id;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_batches IS NOT NULL THEN
        WITH moved AS (
            DELETE FROM {s}.plain AS m USING unnest(v_ids) WITH ORDINALITY AS a (id, position) WHERE m.id = a.id
            RETURNING a.position, m.*, {s}.expires(m) AS expires
        )
        INSERT INTO {s}.messages (
            id, entity, number, state, due, enqueued, expires, ttl_ms, size, origin, hops, source, properties, body
        )
        SELECT
            id, e.id, v_last + position, CASE WHEN e.kind = 1 OR e.forward_to IS NOT NULL THEN 7 ELSE 1 END, expires, enqueued,
            expires, ttl_ms, size, coalesce(origin, 0), coalesce(hops, 0), source, properties, body
        FROM moved;
        GET DIAGNOSTICS v_plain = ROW_COUNT;
        v_count := v_count + v_plain;
    END IF;
    IF v_count < cardinality(v_ids) THEN
        RAISE EXCEPTION 'messages were removed meanwhile' USING ERRCODE = '40001';
    END IF;
    UPDATE {s}.numbers SET last = v_last + v_count WHERE entity = e.id;
    IF v_batches IS NOT NULL THEN
        v_end := v_ids[v_count] + 1;
        DELETE FROM {s}.batches WHERE entity = e.id AND id = ANY (v_batches) AND id + count <= v_end;
        UPDATE {s}.batches SET taken = v_end - id WHERE entity = e.id AND id = ANY (v_batches) AND id + count > v_end;
    END IF;
    RETURN v_count;
END $$;

-- Gives messages of a shared lock rows of their own. Tells how many had none.
CREATE FUNCTION {s}.move(l {s}.locks, p_ids bigint[]) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_count bigint;
BEGIN
    WITH moved AS (
        DELETE FROM {s}.plain AS m WHERE m.id = ANY (p_ids) RETURNING m.*, {s}.expires(m) AS expires
    )
    INSERT INTO {s}.messages (
        id, entity, number, state, token, holder, due, enqueued, expires, ttl_ms, size, origin, hops, source, properties, body
    )
    SELECT
        id, l.entity, l.number + {s}.position_of(id, l.ids, l.counts), 2, l.token, l.holder, l.until, enqueued, expires, ttl_ms,
        size, coalesce(origin, 0), coalesce(hops, 0), source, properties, body
    FROM moved;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;

-- Gives messages of shared locks rows of their own, except those that another transaction is about to settle.
CREATE OR REPLACE FUNCTION {s}.unshare(p_tokens uuid[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    l {s}.locks;
    v_ids bigint[];
BEGIN
    FOR l IN SELECT * FROM {s}.locks WHERE token = ANY (p_tokens) ORDER BY number FOR UPDATE SKIP LOCKED LOOP
        v_ids := ARRAY(
            SELECT m.id FROM unnest(l.ids, l.counts) AS run (id, count), {s}.plain AS m
            WHERE m.id >= run.id AND m.id < run.id + run.count FOR UPDATE OF m SKIP LOCKED
        );
        PERFORM {s}.move(l, v_ids);
        DELETE FROM {s}.locks WHERE token = l.token AND NOT {s}.is_shared(l);
    END LOOP;
END $$;

-- Whether messages are locked by it that have no rows of their own. Of most locks the last messages are settled last.
CREATE OR REPLACE FUNCTION {s}.is_shared(l {s}.locks) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    FOR i IN REVERSE cardinality(l.ids) .. 1 LOOP
        PERFORM FROM {s}.plain AS m WHERE m.id >= l.ids[i] AND m.id < l.ids[i] + l.counts[i] ORDER BY m.id DESC LIMIT 1;
        IF FOUND THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$;

-- Gives a message of a shared lock a row of its own. Not of a lock that has run out: who releases that skips a row that another
-- transaction has, and would receive a later message first.
CREATE OR REPLACE FUNCTION {s}.pull(p_id bigint, p_token uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    l {s}.locks;
BEGIN
    SELECT * INTO l FROM {s}.locks WHERE token = p_token AND until > {s}.now();
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF {s}.position_of(p_id, l.ids, l.counts) IS NOT NULL AND {s}.move(l, ARRAY[p_id]) > 0
        AND (l.counts = '{1}' OR NOT {s}.is_shared(l)) THEN
        DELETE FROM {s}.locks WHERE token = p_token;
    END IF;
END $$;

-- Does what is due at an entity, and numbers what has arrived if that is required, a batch of each. Tells whether messages wait
-- to leave, and whether more is due or has arrived than a batch.
CREATE OR REPLACE FUNCTION {s}.advance(e {s}.entities, OUT leaving boolean, OUT more_due boolean, OUT more_new boolean)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    batch CONSTANT integer := 1000;
    at_once CONSTANT integer := 100;
    t timestamptz;
    v_session record;
    v_due bigint;
    v_tokens uuid[];
    v_locked bigint[];
    v_expired bigint[];
    v_again bigint[];
    v_scheduled bigint[];
BEGIN
    PERFORM FROM {s}.numbers WHERE entity = e.id FOR UPDATE;
    e := {s}.entity(e.id);
    t := {s}.now();
    more_new := false;
    IF NOT {s}.is_plain(e) OR {s}.has_others(e.id)
        OR EXISTS (SELECT FROM {s}.batches WHERE entity = e.id AND due < 'infinity' AND due <= t) THEN
        more_new := {s}.number(e, t) = batch;
    END IF;

    -- Sessions whose lock has run out: the deliveries under it failed.
    IF e.sessions THEN
        FOR v_session IN
            SELECT session, token, until FROM {s}.sessions
            WHERE entity = e.id AND token IS NOT NULL AND until <= t LIMIT batch FOR UPDATE SKIP LOCKED
        LOOP
            CONTINUE WHEN {s}.is_kept(e.id, v_session.session);
            PERFORM {s}.unlock_session(e, v_session.session, v_session.until, 1);
        END LOOP;
    END IF;

    v_tokens := ARRAY(
        SELECT token FROM {s}.locks WHERE entity = e.id AND until <= t ORDER BY until LIMIT at_once FOR UPDATE SKIP LOCKED
    );
    IF v_tokens <> '{}' THEN
        PERFORM {s}.unshare(v_tokens);
    END IF;

    -- What another transaction is about to settle is left to it.
    SELECT
        count(*),
        array_agg(id) FILTER (WHERE state IN (2, 4)),
        array_agg(id) FILTER (WHERE state IN (1, 6) AND part = 0),
        array_agg(id) FILTER (WHERE state = 1 AND part = 1),
        array_agg(id) FILTER (WHERE state = 5)
    INTO v_due, v_locked, v_expired, v_again, v_scheduled FROM (
        SELECT id, state, part FROM {s}.messages
        WHERE entity = e.id AND due < 'infinity' AND due <= t AND state > 0
        ORDER BY due, number LIMIT batch FOR UPDATE SKIP LOCKED
    ) AS due;
    -- Locks of which another transaction has every message give nothing, and would be found again at once.
    more_due := v_due = batch OR cardinality(v_tokens) = at_once AND v_due > 0;
    IF v_locked IS NOT NULL THEN
        PERFORM {s}.unlock(e, v_locked, t, 1);
    END IF;
    IF v_expired IS NOT NULL THEN
        PERFORM {s}.unlock(e, v_expired, t, 0);
    END IF;
    -- Dead letters that could not be forwarded, and are tried again.
    IF v_again IS NOT NULL THEN
        UPDATE {s}.messages SET state = CASE WHEN e.forward_dead_to IS NULL THEN 1 ELSE 7 END, due = 'infinity'
        WHERE id = ANY (v_again);
    END IF;
    -- A scheduled message is accepted anew, at the time that it was scheduled for, after those that were accepted.
    IF v_scheduled IS NOT NULL THEN
        UPDATE {s}.messages AS m SET
            id = a.arrival, state = 0, number = NULL, at = NULL, enqueued = m.due,
            expires = coalesce(m.due + m.ttl_ms * interval '1 millisecond', 'infinity'),
            due = coalesce(m.due + m.ttl_ms * interval '1 millisecond', 'infinity')
        FROM (
            SELECT s.id, {s}.next_id() AS arrival
            FROM unnest(v_scheduled) WITH ORDINALITY AS s (id, position) ORDER BY position
        ) AS a
        WHERE m.id = a.id;
        more_new := {s}.number(e, t) = batch OR more_new;
    END IF;
    leaving := EXISTS (SELECT FROM {s}.messages WHERE entity = e.id AND state = 7);
END $$;
