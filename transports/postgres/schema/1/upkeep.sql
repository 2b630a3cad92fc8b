-- What processes do for each other, and what leaves an entity.

-- Gives back what processes held that are not connected any more, and forgets ids that are too old. A process that comes
-- back within p_grace_ms finds its locks.
CREATE FUNCTION {s}.sweep(p_grace_ms bigint) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
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
    -- What was sent to an entity while that was deleted.
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
                AND NOT EXISTS (SELECT FROM {s}.sessions WHERE holder = v_holder.id);
        END IF;
    END LOOP;
    RETURN QUERY
        SELECT e.id FROM {s}.entities AS e
        WHERE {s}.is_due(e.id, t) OR EXISTS (SELECT FROM {s}.messages WHERE entity = e.id AND state = 7)
            -- What stays where it was sent is numbered when somebody reads it.
            OR (e.kind <> 0 OR e.forward_to IS NOT NULL) AND {s}.has_arrived(e.id);
END $$;

-- What tells the advisory locks of this schema from others.
CREATE FUNCTION {s}.lock_class() RETURNS integer LANGUAGE sql IMMUTABLE AS $$ SELECT hashtext('consign ' || {l}) $$;

-- Puts a copy into a subscription, whatever that says, or a message that is dead already. A subscription that was deleted
-- meanwhile gets none.
CREATE FUNCTION {s}.copy(
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
    v_ttl := least(p_ttl, e.ttl_ms);
    v_expires := coalesce(t + v_ttl * interval '1 millisecond', 'infinity');
    INSERT INTO {s}.messages (
        entity, enqueued, expires, due, ttl_ms, size, part, session, properties, body, origin, hops, source, reason,
        description
    ) VALUES (
        e.id, t, v_expires, CASE WHEN v_dead THEN 'infinity' ELSE v_expires END, v_ttl, p_size,
        CASE WHEN v_dead THEN 1 ELSE 0 END, CASE WHEN e.sessions AND NOT v_dead THEN p_session END,
        p_properties::json, p_body, p_origin, p_hops, p_source, p_reason, p_description
    );
END $$;

-- Puts a message into the dead letters of a subscription as its row has it.
CREATE FUNCTION {s}.copy_dead(p_entity bigint, p_message bigint, p_reason text, p_description text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {s}.messages (
        entity, enqueued, expires, ttl_ms, size, part, properties, body, origin, hops, source, reason, description
    )
    SELECT
        e.id, {s}.now(), 'infinity', least(m.ttl_ms, e.ttl_ms), m.size, 1, m.properties, m.body,
        CASE m.origin WHEN 0 THEN m.number ELSE m.origin END, m.hops, m.source, p_reason, p_description
    FROM {s}.messages AS m, {s}.entities AS e WHERE m.id = p_message AND e.id = p_entity;
END $$;

-- A message could not leave.
CREATE FUNCTION {s}.stay(p_id bigint, p_reason text, p_description text, p_stays boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {s}.messages AS m SET
        part = 1,
        stays = m.stays OR p_stays,
        state = CASE WHEN m.part = 0 AND NOT p_stays AND e.forward_dead_to IS NOT NULL THEN 7 ELSE 1 END,
        -- A dead letter is tried again.
        due = CASE WHEN m.part = 1 AND NOT p_stays THEN {s}.now() + interval '10 seconds' ELSE 'infinity' END,
        expires = 'infinity', session = NULL,
        source = CASE WHEN m.part = 0 THEN NULL ELSE m.source END,
        reason = CASE WHEN m.part = 0 THEN p_reason ELSE m.reason END,
        description = CASE WHEN m.part = 0 THEN p_description ELSE m.description END
    FROM {s}.entities AS e WHERE m.id = p_id AND e.id = m.entity;
END $$;

-- Bytes that an entity holds, and its subscriptions.
CREATE FUNCTION {s}.used(p_entity bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(bytes), 0)::bigint FROM {s}.entities AS e, LATERAL (
        SELECT sum(size + 256) AS bytes FROM {s}.messages WHERE entity = e.id AND state <> 0
        UNION ALL
        SELECT sum(size + 256) FROM {s}.messages WHERE entity = e.id AND state = 0
    ) AS sums WHERE e.id = p_entity OR e.topic = p_entity
$$;

-- Removes an entity with its messages; a topic with its subscriptions.
CREATE FUNCTION {s}.remove(p_key text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_entity bigint;
BEGIN
    SELECT id INTO v_entity FROM {s}.entities WHERE key = p_key FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM {s}.messages USING {s}.entities AS e
    WHERE messages.entity = e.id AND (e.id = v_entity OR e.topic = v_entity) AND messages.state <> 0;
    DELETE FROM {s}.messages USING {s}.entities AS e
    WHERE messages.entity = e.id AND (e.id = v_entity OR e.topic = v_entity) AND messages.state = 0;
    DELETE FROM {s}.entities WHERE id = v_entity;
    RETURN true;
END $$;
