-- Messages that no receiver holds, sessions, and what processes do for each other.

-- Looks at messages from a number on; of a topic, at those that wait for their time.
CREATE OR REPLACE FUNCTION {s}.peek(p_entity bigint, p_part smallint, p_from bigint, p_max bigint, p_session bytea)
RETURNS TABLE (leaving boolean, more boolean, delivery {s}.delivery) LANGUAGE plpgsql AS $$
DECLARE
    e {s}.entities := {s}.entity(p_entity);
BEGIN
    SELECT s.leaving, s.more INTO leaving, more FROM {s}.reveal(p_entity) AS s;
    RETURN NEXT;
    RETURN QUERY
        SELECT false, false, shown.delivery FROM (
            (
                SELECT m.number, {s}.show(m, NULL) AS delivery FROM {s}.messages AS m
                WHERE entity = e.id AND part = p_part AND number >= p_from AND state > 0 AND (e.kind <> 1 OR state = 5)
                    AND (p_session IS NULL OR session = p_session)
                ORDER BY number LIMIT p_max
            )
            UNION ALL
            (
                SELECT l.number + member.position, ROW(
                    m.id, l.number + member.position, m.origin, m.enqueued, m.expires, NULL, m.failures, m.part, 2, m.ttl_ms,
                    m.reason, m.description, m.source, m.properties, m.body
                )::{s}.delivery
                FROM {s}.locks AS l, {s}.members(l.ids, l.counts) AS member,
                    LATERAL (SELECT * FROM {s}.messages AS own WHERE own.id = member.id OFFSET 0) AS m
                WHERE l.entity = e.id AND p_part = 0 AND p_session IS NULL AND l.number + member.position >= p_from
                    AND m.state < 0
                ORDER BY 1 LIMIT p_max
            )
        ) AS shown ORDER BY shown.number LIMIT p_max;
END $$;

CREATE OR REPLACE FUNCTION {s}.counts(p_entity bigint)
RETURNS TABLE (part smallint, state smallint, count bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {s}.step(p_entity);
    RETURN QUERY
        SELECT m.part, m.state, count(*) FROM {s}.messages AS m
        WHERE entity = p_entity AND m.number IS NOT NULL AND m.state > 0 GROUP BY 1, 2
        UNION ALL
        SELECT m.part, (CASE WHEN at > {s}.now() THEN 5 ELSE 1 END)::smallint, count(*) FROM {s}.messages AS m
        WHERE entity = p_entity AND m.state = 0 GROUP BY 1, 2
        UNION ALL
        SELECT 0::smallint, 1::smallint, coalesce(sum(b.count - b.taken), 0)::bigint FROM {s}.batches AS b
        WHERE b.entity = p_entity
        UNION ALL
        SELECT 0::smallint, 2::smallint, count(*) FROM {s}.locks AS l, unnest(l.ids, l.counts) AS run (id, count),
            LATERAL (SELECT * FROM {s}.messages AS own WHERE own.id >= run.id AND own.id < run.id + run.count OFFSET 0) AS m
        WHERE l.entity = p_entity AND m.state < 0;
END $$;

-- Bytes that an entity holds, and its subscriptions.
CREATE OR REPLACE FUNCTION {s}.used(p_entity bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(bytes), 0)::bigint FROM {s}.entities AS e, LATERAL (
        SELECT sum(size + 256) AS bytes FROM {s}.messages WHERE entity = e.id AND number IS NOT NULL AND state > 0
        UNION ALL
        SELECT sum(size + 256) FROM {s}.messages WHERE entity = e.id AND state = 0
        UNION ALL
        SELECT sum(m.size + 256) FROM {s}.batches AS b, LATERAL (
            SELECT own.size, own.state FROM {s}.messages AS own WHERE own.id >= b.id + b.taken AND own.id < b.id + b.count OFFSET 0
        ) AS m WHERE b.entity = e.id AND m.state < 0
        UNION ALL
        SELECT sum(m.size + 256) FROM {s}.locks AS l, unnest(l.ids, l.counts) AS run (id, count), LATERAL (
            SELECT own.size, own.state FROM {s}.messages AS own WHERE own.id >= run.id AND own.id < run.id + run.count OFFSET 0
        ) AS m WHERE l.entity = e.id AND m.state < 0
    ) AS sums WHERE e.id = p_entity OR e.topic = p_entity
$$;

-- Removes messages that no receiver holds and that are not scheduled, the oldest first.
CREATE OR REPLACE FUNCTION {s}.purge(p_entity bigint, p_part smallint, p_max bigint, p_before bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint := 0;
    v_removed bigint;
    v_numbered bigint;
BEGIN
    PERFORM {s}.step(p_entity);
    LOOP
        DELETE FROM {s}.messages WHERE id = ANY (ARRAY(
            SELECT id FROM {s}.messages
            WHERE entity = p_entity AND part = p_part AND number IS NOT NULL AND state IN (1, 3)
                AND (p_before IS NULL OR enqueued < to_timestamp(p_before / 1000.0))
            ORDER BY number LIMIT p_max - v_count FOR UPDATE SKIP LOCKED
        ));
        GET DIAGNOSTICS v_removed = ROW_COUNT;
        v_count := v_count + v_removed;
        EXIT WHEN v_count >= p_max;
        v_numbered := {s}.number({s}.entity(p_entity), {s}.now());
        EXIT WHEN v_numbered = 0;
    END LOOP;
    RETURN v_count;
END $$;

-- Puts a copy into a subscription, whatever its settings, or a message that is dead already. A subscription that was deleted
-- meanwhile gets none.
CREATE OR REPLACE FUNCTION {s}.copy(
    p_entity bigint, p_properties text, p_body bytea, p_size integer, p_session bytea, p_ttl bigint, p_origin bigint,
    p_hops smallint, p_source text, p_reason text, p_description text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    e {s}.entities;
    t timestamptz := {s}.now();
    v_ttl bigint;
    v_expires timestamptz;
    v_dead boolean := p_reason IS NOT NULL;
BEGIN
    SELECT * INTO e FROM {s}.entities WHERE id = p_entity;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF NOT v_dead AND {s}.is_plain(e) THEN
        PERFORM {s}.put(
            e, t, ARRAY[p_properties], ARRAY[p_body], ARRAY[p_size], NULL,
            CASE WHEN p_ttl IS NOT NULL THEN ARRAY[p_ttl] END, p_origin, p_hops, p_source
        );
        RETURN;
    END IF;
    v_ttl := least(p_ttl, e.ttl_ms);
    v_expires := coalesce(t + v_ttl * interval '1 millisecond', 'infinity');
    INSERT INTO {s}.messages (
        entity, enqueued, expires, due, ttl_ms, size, part, session, properties, body, origin, hops, source, reason,
        description
    ) VALUES (
        e.id, t, v_expires, CASE WHEN v_dead THEN 'infinity' ELSE v_expires END, v_ttl, p_size,
        CASE WHEN v_dead THEN 1 ELSE 0 END, CASE WHEN e.sessions AND NOT v_dead THEN p_session END,
        p_properties, p_body, p_origin, p_hops, p_source, p_reason, p_description
    );
END $$;

-- Removes an entity with its messages; a topic with its subscriptions.
CREATE OR REPLACE FUNCTION {s}.remove(p_key text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_entity bigint;
    v_all bigint[];
BEGIN
    SELECT id INTO v_entity FROM {s}.entities WHERE key = p_key FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- From here on nothing is locked or numbered there.
    v_all := ARRAY(
        SELECT entity FROM {s}.numbers
        WHERE entity IN (SELECT id FROM {s}.entities WHERE id = v_entity OR topic = v_entity) ORDER BY entity FOR UPDATE
    );
    DELETE FROM {s}.messages USING {s}.entities AS e
    WHERE messages.entity = e.id AND e.id = ANY (v_all) AND messages.number IS NOT NULL AND messages.state > 0;
    DELETE FROM {s}.messages USING {s}.entities AS e
    WHERE messages.entity = e.id AND e.id = ANY (v_all) AND messages.state = 0;
    PERFORM {s}.remove_batch(b) FROM {s}.batches AS b WHERE b.entity = ANY (v_all);
    PERFORM {s}.remove_lock(l) FROM {s}.locks AS l WHERE l.entity = ANY (v_all);
    DELETE FROM {s}.entities WHERE id = v_entity;
    RETURN true;
END $$;

CREATE FUNCTION {s}.remove_batch(b {s}.batches) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    DELETE FROM {s}.messages WHERE id >= b.id + b.taken AND id < b.id + b.count AND state < 0;
    DELETE FROM {s}.batches WHERE entity = b.entity AND id = b.id;
END $$;

CREATE FUNCTION {s}.remove_lock(l {s}.locks) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    FOR i IN 1 .. cardinality(l.ids) LOOP
        DELETE FROM {s}.messages WHERE id >= l.ids[i] AND id < l.ids[i] + l.counts[i] AND state < 0;
    END LOOP;
    DELETE FROM {s}.locks WHERE token = l.token;
END $$;

-- Removes messages that were sent to an entity while that was deleted.
CREATE FUNCTION {s}.remove_stray() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM {s}.messages WHERE id IN (
        WITH RECURSIVE entity AS (
            (SELECT m.entity AS id FROM {s}.messages AS m WHERE state = 0 ORDER BY m.entity LIMIT 1)
            UNION ALL
            SELECT (
                SELECT m.entity FROM {s}.messages AS m WHERE state = 0 AND m.entity > entity.id ORDER BY m.entity LIMIT 1
            ) FROM entity WHERE entity.id IS NOT NULL
        )
        SELECT m.id FROM entity JOIN {s}.messages AS m ON m.entity = entity.id AND m.state = 0
        WHERE NOT EXISTS (SELECT FROM {s}.entities AS e WHERE e.id = entity.id) LIMIT 10000
    );
    PERFORM {s}.remove_batch(b) FROM {s}.batches AS b WHERE (b.entity, b.id) IN (
        WITH RECURSIVE entity AS (
            (SELECT b.entity AS id FROM {s}.batches AS b ORDER BY b.entity LIMIT 1)
            UNION ALL
            SELECT (SELECT b.entity FROM {s}.batches AS b WHERE b.entity > entity.id ORDER BY b.entity LIMIT 1)
            FROM entity WHERE entity.id IS NOT NULL
        )
        SELECT b.entity, b.id FROM entity JOIN {s}.batches AS b ON b.entity = entity.id
        WHERE NOT EXISTS (SELECT FROM {s}.entities AS e WHERE e.id = entity.id) LIMIT 1000
    );
END $$;

-- Releases what lost processes held, and forgets ids that are too old. A process that reconnects within p_grace_ms keeps its
-- locks.
CREATE OR REPLACE FUNCTION {s}.sweep(p_grace_ms bigint) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := {s}.now();
    v_holder record;
    v_session record;
    v_entity bigint;
    v_is_left boolean;
BEGIN
    DELETE FROM {s}.ids WHERE (entity, id) IN (
        SELECT entity, id FROM {s}.ids WHERE until <= t ORDER BY until LIMIT 10000 FOR UPDATE SKIP LOCKED
    );
    PERFORM {s}.remove_stray();
    FOR v_holder IN SELECT id, lost FROM {s}.holders LOOP
        CONTINUE WHEN NOT pg_try_advisory_xact_lock({s}.lock_class(), v_holder.id);
        IF v_holder.lost IS NULL THEN
            UPDATE {s}.holders SET lost = t WHERE id = v_holder.id;
        ELSIF v_holder.lost <= t - p_grace_ms * interval '1 millisecond' THEN
            FOR v_session IN
                SELECT entity, session FROM {s}.sessions WHERE holder = v_holder.id FOR UPDATE SKIP LOCKED
            LOOP
                CONTINUE WHEN {s}.is_kept(v_session.entity, v_session.session);
                PERFORM {s}.unlock_session({s}.entity(v_session.entity), v_session.session, t, 0);
                RETURN NEXT v_session.entity;
            END LOOP;
            v_is_left := false;
            FOR v_entity IN SELECT id FROM {s}.entities LOOP
                IF {s}.release_all(v_entity, v_holder.id, NULL) THEN
                    v_is_left := v_is_left OR {s}.held(v_entity, v_holder.id, NULL) IS NOT NULL;
                    RETURN NEXT v_entity;
                END IF;
            END LOOP;
            -- What another transaction is about to settle is left to it.
            DELETE FROM {s}.holders
            WHERE id = v_holder.id AND NOT v_is_left
                AND NOT EXISTS (SELECT FROM {s}.locks WHERE holder = v_holder.id)
                AND NOT EXISTS (SELECT FROM {s}.sessions WHERE holder = v_holder.id);
        END IF;
    END LOOP;
    RETURN QUERY
        SELECT e.id FROM {s}.entities AS e
        WHERE {s}.is_due(e.id, t) OR EXISTS (SELECT FROM {s}.messages WHERE entity = e.id AND state = 7)
            -- A message that stays where it was sent is numbered when it is read.
            OR (e.kind <> 0 OR e.forward_to IS NOT NULL)
                AND ({s}.has_others(e.id) OR NOT {s}.is_plain(e) AND {s}.has_arrived(e.id));
END $$;

-- Locks a session. Answers until when, or null while another holds it.
CREATE OR REPLACE FUNCTION {s}.take_session(e {s}.entities, p_session bytea, p_holder integer, p_token uuid) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := {s}.now();
    v_until timestamptz;
BEGIN
    -- A lock need not outlive the server.
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO {s}.sessions AS s (entity, session, token, until, holder)
    VALUES (e.id, p_session, p_token, t + e.lock_ms * interval '1 millisecond', p_holder)
    ON CONFLICT (entity, session) DO UPDATE
    SET token = excluded.token, until = excluded.until, holder = excluded.holder
    WHERE s.token IS NULL
    RETURNING until INTO v_until;
    RETURN {s}.ms(v_until);
END $$;

-- Extends the lock of a session. Answers until when it holds; null if it is lost.
CREATE OR REPLACE FUNCTION {s}.renew_session(p_entity bigint, p_session bytea, p_token uuid) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := {s}.now();
    v_until timestamptz;
BEGIN
    -- A lock need not outlive the server.
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE {s}.sessions AS s SET until = t + e.lock_ms * interval '1 millisecond'
    FROM {s}.entities AS e
    WHERE s.entity = p_entity AND s.session = p_session AND s.token = p_token AND s.until > t AND e.id = s.entity
    RETURNING s.until INTO v_until;
    RETURN {s}.ms(v_until);
END $$;
