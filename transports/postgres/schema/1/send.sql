-- Messages are sent.

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
    IF e.sessions AND array_position(p_sessions, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'the entity requires sessions and the message has no SessionId' USING ERRCODE = 'CN409';
    END IF;
    IF e.max_message_size < ANY (p_sizes) THEN
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
