-- Sessions.

-- Locks a session. Answers until when, or null while another holds it.
CREATE FUNCTION {s}.take_session(e {s}.entities, p_session bytea, p_holder integer, p_token uuid) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := {s}.now();
    v_until timestamptz;
BEGIN
    INSERT INTO {s}.sessions AS s (entity, session, token, until, holder)
    VALUES (e.id, p_session, p_token, t + e.lock_ms * interval '1 millisecond', p_holder)
    ON CONFLICT (entity, session) DO UPDATE
    SET token = excluded.token, until = excluded.until, holder = excluded.holder
    WHERE s.token IS NULL
    RETURNING until INTO v_until;
    RETURN {s}.ms(v_until);
END $$;

CREATE FUNCTION {s}.check_session(e {s}.entities) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF e.status IN (1, 4) THEN
        RAISE EXCEPTION '%', e.path USING ERRCODE = 'CN423';
    END IF;
    IF NOT e.sessions THEN
        RAISE EXCEPTION 'the entity has no sessions' USING ERRCODE = 'CN409';
    END IF;
END $$;

CREATE FUNCTION {s}.accept_session(p_entity bigint, p_session bytea, p_holder integer, p_token uuid)
RETURNS TABLE (until bigint, lock_ms bigint) LANGUAGE plpgsql AS $$
DECLARE
    e {s}.entities := {s}.entity(p_entity);
BEGIN
    PERFORM {s}.check_session(e);
    PERFORM {s}.step(e.id);
    until := {s}.take_session(e, p_session, p_holder, p_token);
    lock_ms := e.lock_ms;
    IF until IS NULL THEN
        RAISE EXCEPTION 'another receiver holds the session' USING ERRCODE = 'CN412';
    END IF;
    RETURN NEXT;
END $$;

-- Locks the session with the oldest message of those that nobody holds. Its id is null if there is none.
CREATE FUNCTION {s}.next_session(p_entity bigint, p_holder integer, p_token uuid)
RETURNS TABLE (session bytea, until bigint, lock_ms bigint, wait_us bigint, leaving boolean, more boolean) LANGUAGE plpgsql AS $$
DECLARE
    e {s}.entities := {s}.entity(p_entity);
    v_next record;
BEGIN
    PERFORM {s}.check_session(e);
    SELECT s.leaving, s.more INTO leaving, more FROM {s}.step(e.id) AS s;
    lock_ms := e.lock_ms;
    FOR v_next IN
        -- From session to session, and not from message to message.
        WITH RECURSIVE first AS (
            (
                SELECT m.session, m.number FROM {s}.messages AS m
                WHERE m.entity = e.id AND m.state = 1 AND m.session IS NOT NULL ORDER BY m.session, m.number LIMIT 1
            ) UNION ALL (
                SELECT following.* FROM first, LATERAL (
                    SELECT m.session, m.number FROM {s}.messages AS m
                    WHERE m.entity = e.id AND m.state = 1 AND m.session IS NOT NULL AND m.session > first.session
                    ORDER BY m.session, m.number LIMIT 1
                ) AS following
            )
        )
        SELECT first.session FROM first
        WHERE NOT EXISTS (
            SELECT FROM {s}.sessions AS s WHERE s.entity = e.id AND s.session = first.session AND s.token IS NOT NULL
        ) ORDER BY first.number
    LOOP
        until := {s}.take_session(e, v_next.session, p_holder, p_token);
        IF until IS NOT NULL THEN
            session := v_next.session;
            RETURN NEXT;
            RETURN;
        END IF;
    END LOOP;
    wait_us := {s}.next_due(e.id, {s}.now());
    RETURN NEXT;
END $$;

-- The session of this token, locked against a change; null if the lock is lost.
CREATE FUNCTION {s}.renew_session(p_entity bigint, p_session bytea, p_token uuid) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := {s}.now();
    v_until timestamptz;
BEGIN
    UPDATE {s}.sessions AS s SET until = t + e.lock_ms * interval '1 millisecond'
    FROM {s}.entities AS e
    WHERE s.entity = p_entity AND s.session = p_session AND s.token = p_token AND s.until > t AND e.id = s.entity
    RETURNING s.until INTO v_until;
    RETURN {s}.ms(v_until);
END $$;

-- Gives a session up. Tells whether it was held.
CREATE FUNCTION {s}.close_session(p_entity bigint, p_session bytea, p_token uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := {s}.now();
BEGIN
    PERFORM FROM {s}.sessions
    WHERE entity = p_entity AND session = p_session AND token = p_token AND until > t FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM {s}.unlock_session({s}.entity(p_entity), p_session, t, 0);
    RETURN true;
END $$;
