-- What is done beside the calls.

-- Has dead letters leave that are ready in entities that forward them. They were released by a transaction that was open when the
-- entity began to forward them.
CREATE FUNCTION {s}.let_stranded_leave() RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_entity bigint;
BEGIN
    FOR v_entity IN SELECT id FROM {s}.entities WHERE forward_dead_to IS NOT NULL ORDER BY id LOOP
        UPDATE {s}.messages SET state = 7 WHERE id = ANY (ARRAY(
            -- One that could not be forwarded has the time of the next attempt.
            SELECT id FROM {s}.messages
            WHERE entity = v_entity AND part = 1 AND state = 1 AND due = 'infinity' AND NOT stays
            ORDER BY number LIMIT 1000 FOR UPDATE SKIP LOCKED
        ));
    END LOOP;
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
    PERFORM {s}.let_stranded_leave();
    RETURN QUERY
        SELECT e.id FROM {s}.entities AS e
        WHERE {s}.is_due(e.id, t) OR EXISTS (SELECT FROM {s}.messages WHERE entity = e.id AND state = 7)
            OR {s}.has_stranded(e)
            -- A message that stays where it was sent is numbered when it is read.
            OR (e.kind <> 0 OR e.forward_to IS NOT NULL)
                AND ({s}.has_others(e.id) OR NOT {s}.is_plain(e) AND {s}.has_arrived(e.id));
END $$;
