-- Messages that nobody holds: looked at, counted, removed.

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
