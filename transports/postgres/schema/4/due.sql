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
