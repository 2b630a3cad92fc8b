-- Messages are sent.

DROP FUNCTION {s}.send(bigint, bigint, smallint, text, text[], bytea[], integer[], bytea[], bytea[], bigint[], bigint[]);

-- Stores up to 1,024 messages that take the common path, in their order. Answers with the id of the first.
CREATE OR REPLACE FUNCTION {s}.put(
    e {s}.entities, t timestamptz, p_properties text[], p_bodies bytea[], p_sizes integer[], p_ats bigint[], p_ttls bigint[],
    p_origin bigint, p_hops smallint, p_source text
) RETURNS bigint LANGUAGE plpgsql
-- The number of messages would have each call planned.
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_count integer := cardinality(p_sizes);
    v_id bigint := {s}.next_id();
    v_ttl bigint := e.ttl_ms;
    v_expires timestamptz := coalesce(t + e.ttl_ms * interval '1 millisecond', 'infinity');
    v_size integer := p_sizes[1];
BEGIN
    IF p_ttls IS NULL THEN
        INSERT INTO {s}.plain (id, enqueued, size, ttl_ms, origin, hops, source, properties, body)
        SELECT
            generate_series(v_id, v_id + v_count - 1), t, unnest(p_sizes), v_ttl, nullif(p_origin, 0), nullif(p_hops, 0), p_source,
            unnest(p_properties), unnest(p_bodies);
    ELSE
        INSERT INTO {s}.plain (id, enqueued, size, ttl_ms, origin, hops, source, properties, body)
        SELECT
            a.id, t, a.size, least(a.ttl_ms, e.ttl_ms), nullif(p_origin, 0), nullif(p_hops, 0), p_source, a.properties, a.body
        FROM (
            SELECT
                generate_series(v_id, v_id + v_count - 1) AS id, unnest(p_properties) AS properties, unnest(p_bodies) AS body,
                unnest(p_sizes) AS size, unnest(p_ttls) AS ttl_ms
        ) AS a;
        v_ttl := least((SELECT min(ttl) FROM unnest(p_ttls) AS ttl), v_ttl);
        v_expires := coalesce(t + v_ttl * interval '1 millisecond', 'infinity');
    END IF;
    IF v_count > 1 THEN
        v_size := (SELECT max(size) FROM unnest(p_sizes) AS size);
    END IF;
    INSERT INTO {s}.batches (entity, id, count, size, due)
    VALUES (e.id, v_id, v_count, v_size, v_expires);
    RETURN v_id;
END $$;

-- Takes messages. All of them, or an error and none. Answers with the id of the first, if those of the others follow without a
-- gap. Else with the id of each, or null for a duplicate; and for a duplicate with the id of the scheduled message that it
-- repeats, if there is one. p_sessions, p_ats and p_ttls are null if they have no other
-- element, and p_ids may be where no duplicates are detected.
CREATE FUNCTION {s}.send(
    p_entity bigint, p_hops smallint, p_origin bigint, p_source text, p_properties text[], p_bodies bytea[],
    p_sizes integer[], p_ids bytea[], p_sessions bytea[], p_ats bigint[], p_ttls bigint[],
    OUT id bigint, OUT ids bigint[], OUT firsts bigint[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    -- An id has 10 bits for the position.
    batch CONSTANT integer := 1024;
    e {s}.entities;
    t timestamptz;
    -- Whether they take the common path.
    v_is_plain boolean;
    v_id bigint;
    v_ttl bigint;
    v_at timestamptz;
    v_expires timestamptz;
    -- Those of them that are not duplicates.
    v_new integer[] := '{}';
    v_slice integer[];
BEGIN
    SELECT own.* INTO e FROM {s}.entities AS own WHERE own.id = p_entity;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such entity' USING ERRCODE = 'CN404';
    ELSIF e.status IN (1, 3) THEN
        RAISE EXCEPTION '%', e.path USING ERRCODE = 'CN423';
    END IF;
    IF e.sessions AND (p_sessions IS NULL OR array_position(p_sessions, NULL) IS NOT NULL) THEN
        RAISE EXCEPTION 'the entity requires sessions and the message has no SessionId' USING ERRCODE = 'CN409';
    END IF;
    IF e.max_message_size < ANY (p_sizes) THEN
        RAISE EXCEPTION 'at most % bytes', e.max_message_size USING ERRCODE = 'CN413';
    END IF;
    t := {s}.now();
    v_is_plain := {s}.is_plain(e) AND (p_ats IS NULL OR NOT coalesce({s}.ms(t) < ANY (p_ats), false));
    IF v_is_plain AND e.window_ms IS NULL AND cardinality(p_sizes) = 1 AND p_ats IS NULL THEN
        -- As put does, for the price of two inserts.
        v_ttl := least(p_ttls[1], e.ttl_ms);
        v_expires := coalesce(t + v_ttl * interval '1 millisecond', 'infinity');
        v_id := {s}.next_id();
        INSERT INTO {s}.plain (id, enqueued, size, ttl_ms, origin, hops, source, properties, body)
        VALUES (v_id, t, p_sizes[1], v_ttl, nullif(p_origin, 0), nullif(p_hops, 0), p_source, p_properties[1], p_bodies[1]);
        INSERT INTO {s}.batches (entity, id, count, size, due) VALUES (e.id, v_id, 1, p_sizes[1], v_expires);
        id := v_id;
        RETURN;
    ELSIF v_is_plain AND e.window_ms IS NULL AND cardinality(p_sizes) BETWEEN 1 AND batch THEN
        id := {s}.put(e, t, p_properties, p_bodies, p_sizes, p_ats, p_ttls, p_origin, p_hops, p_source);
        RETURN;
    END IF;
    ids := array_fill(NULL::bigint, ARRAY[cardinality(p_sizes)]);
    firsts := ids;
    FOR i IN 1 .. cardinality(p_sizes) LOOP
        v_id := NULL;
        IF e.window_ms IS NOT NULL THEN
            t := {s}.now();
            INSERT INTO {s}.ids AS seen (entity, id, until)
            VALUES (e.id, p_ids[i], t + e.window_ms * interval '1 millisecond')
            ON CONFLICT (entity, id) DO UPDATE SET until = excluded.until, message = NULL WHERE seen.until <= t;
            IF NOT FOUND THEN
                SELECT seen.message INTO v_id FROM {s}.ids AS seen WHERE seen.entity = e.id AND seen.id = p_ids[i];
                firsts[i] := v_id;
                ids[i] := NULL;
                CONTINUE;
            END IF;
        END IF;
        IF v_is_plain THEN
            v_new := v_new || i;
            CONTINUE;
        END IF;
        v_ttl := least(p_ttls[i], e.ttl_ms);
        v_at := to_timestamp(p_ats[i] / 1000.0);
        v_expires := coalesce(t + v_ttl * interval '1 millisecond', 'infinity');
        INSERT INTO {s}.messages AS m (
            entity, enqueued, expires, due, at, ttl_ms, size, session, properties, body, origin, hops, source
        ) VALUES (
            e.id, t, v_expires, CASE WHEN v_at > t THEN v_at ELSE v_expires END, v_at, v_ttl, p_sizes[i],
            CASE WHEN e.sessions THEN p_sessions[i] END, p_properties[i], p_bodies[i], p_origin, p_hops, p_source
        ) RETURNING m.id INTO v_id;
        ids[i] := v_id;
        IF e.window_ms IS NOT NULL AND v_at > t THEN
            UPDATE {s}.ids AS seen SET message = v_id WHERE seen.entity = e.id AND seen.id = p_ids[i];
        END IF;
    END LOOP;
    FOR v_from IN 1 .. cardinality(v_new) BY batch LOOP
        v_slice := v_new[v_from:v_from + batch - 1];
        v_id := {s}.put(
            e, t, ARRAY(SELECT p_properties[i] FROM unnest(v_slice) AS i), ARRAY(SELECT p_bodies[i] FROM unnest(v_slice) AS i),
            ARRAY(SELECT p_sizes[i] FROM unnest(v_slice) AS i),
            CASE WHEN p_ats IS NOT NULL THEN ARRAY(SELECT p_ats[i] FROM unnest(v_slice) AS i) END,
            CASE WHEN p_ttls IS NOT NULL THEN ARRAY(SELECT p_ttls[i] FROM unnest(v_slice) AS i) END,
            p_origin, p_hops, p_source
        );
        FOR i IN 1 .. cardinality(v_slice) LOOP
            ids[v_slice[i]] := v_id + i - 1;
        END LOOP;
    END LOOP;
END $$;

-- The numbers of rows, after a batch was numbered: 0 for one that is none any more, null for one that has none yet.
CREATE OR REPLACE FUNCTION {s}.numbers_of(p_entity bigint, p_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {s}.reveal(p_entity);
    RETURN ARRAY(
        SELECT CASE
            WHEN p.id IS NOT NULL THEN (
                SELECT l.number + {s}.position_of(p.id, l.ids, l.counts) FROM {s}.locks AS l
                WHERE l.entity = p_entity AND {s}.position_of(p.id, l.ids, l.counts) IS NOT NULL LIMIT 1
            )
            WHEN m.id IS NULL THEN 0
            ELSE m.number
        END
        FROM unnest(p_ids) WITH ORDINALITY AS asked (id, position)
        LEFT JOIN {s}.messages AS m ON m.id = asked.id
        LEFT JOIN {s}.plain AS p ON p.id = asked.id ORDER BY position
    );
END $$;
