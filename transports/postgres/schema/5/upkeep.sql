-- What is done beside the calls, and reply queues.

-- Forgets up to p_max ids whose window has passed. Tells how many.
CREATE FUNCTION {s}.forget_ids(p_max integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := {s}.now();
    v_count bigint;
BEGIN
    DELETE FROM {s}.ids WHERE (entity, id) IN (
        SELECT entity, id FROM {s}.ids WHERE until <= t ORDER BY until LIMIT p_max FOR UPDATE SKIP LOCKED
    );
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
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
    -- For clients of version 4, which do not call it themselves.
    PERFORM {s}.forget_ids(10000);
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
            OR {s}.has_stranded(e)
            -- A message that stays where it was sent is numbered when it is read.
            OR (e.kind <> 0 OR e.forward_to IS NOT NULL)
                AND ({s}.has_others(e.id) OR NOT {s}.is_plain(e) AND {s}.has_arrived(e.id));
END $$;

-- Creates a queue with the default settings that belongs to a holder. Answers with its path.
CREATE OR REPLACE FUNCTION {s}.create_reply_queue(p_holder integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_path text := 'replies/' || gen_random_uuid();
    v_entity bigint;
BEGIN
    -- The holder is not removed meanwhile.
    PERFORM FROM {s}.holders WHERE id = p_holder FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the connection that owns reply queues was lost' USING ERRCODE = 'CN409';
    END IF;
    INSERT INTO {s}.entities (
        key, path, kind, status, max_deliveries, lock_ms, max_size, max_message_size, dead_on_expiry, dead_on_filter_error,
        sessions, owner
    ) VALUES (v_path, v_path, 0, 0, 10, 60000, 1073741824, 262144, false, false, false, p_holder)
    RETURNING id INTO v_entity;
    INSERT INTO {s}.numbers (entity, last) VALUES (v_entity, 0);
    RETURN v_path;
END $$;
