-- Messages are looked at, counted and removed.

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
                    m.id, l.number + member.position, coalesce(m.origin, 0), m.enqueued, m.expires, NULL, 0, 0, 2, m.ttl_ms,
                    NULL, NULL, m.source, m.properties, m.body
                )::{s}.delivery
                FROM {s}.locks AS l, {s}.members(l.ids, l.counts) AS member, LATERAL (
                    SELECT own.*, {s}.expires(own) AS expires FROM {s}.plain AS own WHERE own.id = member.id OFFSET 0
                ) AS m
                WHERE l.entity = e.id AND p_part = 0 AND p_session IS NULL AND l.number + member.position >= p_from
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
            LATERAL (SELECT FROM {s}.plain AS own WHERE own.id >= run.id AND own.id < run.id + run.count OFFSET 0) AS m
        WHERE l.entity = p_entity;
END $$;

-- Bytes that an entity holds, and its subscriptions.
CREATE OR REPLACE FUNCTION {s}.used(p_entity bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(bytes), 0)::bigint FROM {s}.entities AS e, LATERAL (
        SELECT sum(size + 256) AS bytes FROM {s}.messages WHERE entity = e.id AND number IS NOT NULL AND state > 0
        UNION ALL
        SELECT sum(size + 256) FROM {s}.messages WHERE entity = e.id AND state = 0
        UNION ALL
        SELECT sum(m.size + 256) FROM {s}.batches AS b, LATERAL (
            SELECT own.size FROM {s}.plain AS own WHERE own.id >= b.id + b.taken AND own.id < b.id + b.count OFFSET 0
        ) AS m WHERE b.entity = e.id
        UNION ALL
        SELECT sum(m.size + 256) FROM {s}.locks AS l, unnest(l.ids, l.counts) AS run (id, count), LATERAL (
            SELECT own.size FROM {s}.plain AS own WHERE own.id >= run.id AND own.id < run.id + run.count OFFSET 0
        ) AS m WHERE l.entity = e.id
    ) AS sums WHERE e.id = p_entity OR e.topic = p_entity
$$;

CREATE OR REPLACE FUNCTION {s}.remove_batch(b {s}.batches) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    DELETE FROM {s}.plain WHERE id >= b.id + b.taken AND id < b.id + b.count;
    DELETE FROM {s}.batches WHERE entity = b.entity AND id = b.id;
END $$;

CREATE OR REPLACE FUNCTION {s}.remove_lock(l {s}.locks) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    FOR i IN 1 .. cardinality(l.ids) LOOP
        DELETE FROM {s}.plain WHERE id >= l.ids[i] AND id < l.ids[i] + l.counts[i];
    END LOOP;
    DELETE FROM {s}.locks WHERE token = l.token;
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
    -- A transaction that had a message of those locks may have given it a row of its own meanwhile.
    DELETE FROM {s}.messages USING {s}.entities AS e
    WHERE messages.entity = e.id AND e.id = ANY (v_all) AND messages.number IS NOT NULL AND messages.state > 0;
    DELETE FROM {s}.entities WHERE id = v_entity;
    RETURN true;
END $$;
