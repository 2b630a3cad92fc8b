-- What happens by itself, and the numbers.

CREATE FUNCTION {s}.entity(p_entity bigint) RETURNS {s}.entities LANGUAGE plpgsql AS $$
DECLARE
    e {s}.entities;
BEGIN
    SELECT * INTO e FROM {s}.entities WHERE id = p_entity;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such entity' USING ERRCODE = 'CN404';
    END IF;
    RETURN e;
END $$;

-- Ends what p_ids are in: a lock, a delay, or their time. p_failed is 1 if a delivery failed, else 0.
CREATE FUNCTION {s}.unlock(e {s}.entities, p_ids bigint[], t timestamptz, p_failed integer) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    IF NOT e.dead_on_expiry THEN
        DELETE FROM {s}.messages
        WHERE id = ANY (p_ids) AND part = 0 AND state IN (1, 2, 6) AND expires <= t
            AND NOT (p_failed > 0 AND failures + p_failed >= e.max_deliveries);
    END IF;
    UPDATE {s}.messages AS m SET
        token = NULL,
        holder = NULL,
        part = CASE WHEN fate > 2 THEN 1 ELSE m.part END,
        state = CASE
            WHEN fate = 1 THEN 3
            WHEN fate > 2 AND e.forward_dead_to IS NOT NULL AND NOT m.stays THEN 7
            ELSE 1
        END,
        failures = CASE
            WHEN fate = 0 THEN m.failures
            WHEN fate > 2 THEN greatest(m.failures + p_failed - 1, 0)
            ELSE m.failures + p_failed
        END,
        due = CASE WHEN fate = 2 THEN m.expires ELSE 'infinity' END,
        expires = CASE WHEN fate > 2 THEN 'infinity' ELSE m.expires END,
        session = CASE WHEN fate > 2 THEN NULL ELSE m.session END,
        source = CASE WHEN fate > 2 THEN NULL ELSE m.source END,
        reason = CASE fate
            WHEN 3 THEN 'MaxDeliveryCountExceeded'
            WHEN 4 THEN 'TTLExpiredException'
            ELSE m.reason
        END,
        description = CASE fate
            WHEN 3 THEN format('Message could not be consumed after %s delivery attempts.', m.failures + p_failed)
            WHEN 4 THEN 'The message expired and was dead lettered.'
            ELSE m.description
        END
    FROM (
        SELECT id, CASE
            WHEN part = 1 THEN 0
            WHEN state = 4 THEN 1
            WHEN p_failed > 0 AND failures + p_failed >= e.max_deliveries THEN 3
            WHEN expires <= t THEN 4
            ELSE 2
        END AS fate
        FROM {s}.messages WHERE id = ANY (p_ids)
    ) AS fates
    WHERE m.id = fates.id;
END $$;

-- Whether another transaction is about to settle what was delivered under the lock of a session. It is left to that, and so
-- is the session.
CREATE FUNCTION {s}.is_kept(p_entity bigint, p_session bytea) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_free bigint;
BEGIN
    PERFORM FROM {s}.messages
    WHERE entity = p_entity AND part = 0 AND state IN (2, 4) AND session = p_session FOR UPDATE SKIP LOCKED;
    GET DIAGNOSTICS v_free = ROW_COUNT;
    RETURN v_free < (
        SELECT count(*) FROM {s}.messages
        WHERE entity = p_entity AND part = 0 AND state IN (2, 4) AND session = p_session
    );
END $$;

-- Not in the language SQL: what cannot be inlined of that is parsed and planned anew by each statement.
CREATE FUNCTION {s}.has_arrived(p_entity bigint) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM {s}.messages WHERE entity = p_entity AND state = 0);
END $$;

-- Numbers a batch of what has arrived. Tells how many.
CREATE FUNCTION {s}.number(e {s}.entities, t timestamptz) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_last bigint;
    v_count bigint;
BEGIN
    IF NOT {s}.has_arrived(e.id) THEN
        RETURN 0;
    END IF;
    SELECT last INTO v_last FROM {s}.numbers WHERE entity = e.id FOR UPDATE;
    UPDATE {s}.messages AS m SET
        number = v_last + a.position,
        state = CASE
            WHEN m.part = 1 THEN CASE WHEN e.forward_dead_to IS NOT NULL AND NOT m.stays THEN 7 ELSE 1 END
            WHEN m.at > t THEN 5
            WHEN e.kind = 1 OR e.forward_to IS NOT NULL THEN 7
            ELSE 1
        END,
        -- A copy may be dead when it comes.
        due = CASE WHEN m.part = 1 THEN 'infinity' WHEN m.at > t THEN m.at ELSE m.expires END,
        expires = CASE WHEN m.part = 1 THEN 'infinity' ELSE m.expires END
    FROM (
        SELECT id, row_number() OVER (ORDER BY id) AS position FROM (
            SELECT id FROM {s}.messages WHERE entity = e.id AND state = 0 ORDER BY id LIMIT 1000
        ) AS arrived
    ) AS a
    WHERE m.id = a.id;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    UPDATE {s}.numbers SET last = v_last + v_count WHERE entity = e.id;
    RETURN v_count;
END $$;

-- Does what is due at an entity, and numbers what has arrived, a batch of each. Tells whether messages wait to leave, and
-- whether more is due or has arrived than a batch.
CREATE FUNCTION {s}.advance(e {s}.entities, OUT leaving boolean, OUT more_due boolean, OUT more_new boolean)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    batch CONSTANT integer := 1000;
    t timestamptz;
    v_session record;
    v_due bigint;
    v_locked bigint[];
    v_expired bigint[];
    v_again bigint[];
    v_scheduled bigint[];
BEGIN
    PERFORM FROM {s}.numbers WHERE entity = e.id FOR UPDATE;
    t := {s}.now();
    more_new := {s}.number(e, t) = batch;

    -- Sessions whose lock has run out: what was delivered under it failed.
    IF e.sessions THEN
        FOR v_session IN
            SELECT session, token FROM {s}.sessions
            WHERE entity = e.id AND token IS NOT NULL AND until <= t LIMIT batch FOR UPDATE SKIP LOCKED
        LOOP
            CONTINUE WHEN {s}.is_kept(e.id, v_session.session);
            PERFORM {s}.unlock_session(e, v_session.session, t, 1);
        END LOOP;
    END IF;

    -- What another transaction is about to settle is left to it.
    SELECT
        count(*),
        array_agg(id) FILTER (WHERE state IN (2, 4)),
        array_agg(id) FILTER (WHERE state IN (1, 6) AND part = 0),
        array_agg(id) FILTER (WHERE state = 1 AND part = 1),
        array_agg(id) FILTER (WHERE state = 5)
    INTO v_due, v_locked, v_expired, v_again, v_scheduled FROM (
        SELECT id, state, part FROM {s}.messages
        WHERE entity = e.id AND due < 'infinity' AND due <= t AND state <> 0
        ORDER BY due, number LIMIT batch FOR UPDATE SKIP LOCKED
    ) AS due;
    more_due := v_due = batch;
    IF v_locked IS NOT NULL THEN
        PERFORM {s}.unlock(e, v_locked, t, 1);
    END IF;
    IF v_expired IS NOT NULL THEN
        PERFORM {s}.unlock(e, v_expired, t, 0);
    END IF;
    -- Dead letters that could not be forwarded, and are tried again.
    IF v_again IS NOT NULL THEN
        UPDATE {s}.messages SET state = CASE WHEN e.forward_dead_to IS NULL THEN 1 ELSE 7 END, due = 'infinity'
        WHERE id = ANY (v_again);
    END IF;
    -- What was scheduled is accepted anew, at the time that it was scheduled for, and comes behind what was accepted.
    IF v_scheduled IS NOT NULL THEN
        UPDATE {s}.messages AS m SET
            id = a.arrival, state = 0, at = NULL, enqueued = m.due,
            expires = coalesce(m.due + m.ttl_ms * interval '1 millisecond', 'infinity'),
            due = coalesce(m.due + m.ttl_ms * interval '1 millisecond', 'infinity')
        FROM (
            SELECT s.id, nextval(format('%I.arrivals', {l})::regclass) AS arrival
            FROM unnest(v_scheduled) WITH ORDINALITY AS s (id, position) ORDER BY position
        ) AS a
        WHERE m.id = a.id;
        PERFORM {s}.number(e, t);
    END IF;
    leaving := EXISTS (SELECT FROM {s}.messages WHERE entity = e.id AND state = 7);
END $$;

-- Gives a session up, and what was delivered under its lock back.
CREATE FUNCTION {s}.unlock_session(e {s}.entities, p_session bytea, t timestamptz, p_failed integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {s}.unlock(e, ARRAY(
        SELECT id FROM {s}.messages
        WHERE entity = e.id AND part = 0 AND state IN (2, 4) AND session = p_session ORDER BY number
        -- What is settled meanwhile is not given back.
        FOR UPDATE
    ), t, p_failed);
    DELETE FROM {s}.sessions WHERE entity = e.id AND session = p_session AND state IS NULL;
    UPDATE {s}.sessions SET token = NULL, until = NULL, holder = NULL WHERE entity = e.id AND session = p_session;
END $$;
CREATE INDEX messages_held_of_session ON {s}.messages (entity, session) WHERE state IN (2, 4) AND session IS NOT NULL;

-- Whether something happens by itself that has not.
CREATE FUNCTION {s}.is_due(p_entity bigint, t timestamptz) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM {s}.messages WHERE entity = p_entity AND due < 'infinity' AND due <= t AND state <> 0)
        OR EXISTS (SELECT FROM {s}.messages WHERE entity = p_entity AND due < 'infinity' AND due <= t AND state = 0)
        OR EXISTS (SELECT FROM {s}.sessions WHERE entity = p_entity AND token IS NOT NULL AND until <= t);
END $$;

-- Brings an entity up to date, a batch at a time. Tells whether messages wait to leave, and whether there is more to do.
CREATE FUNCTION {s}.step(p_entity bigint, OUT leaving boolean, OUT more boolean) LANGUAGE plpgsql AS $$
DECLARE
    e {s}.entities := {s}.entity(p_entity);
BEGIN
    more := false;
    IF {s}.is_due(e.id, {s}.now()) OR {s}.has_arrived(e.id) THEN
        SELECT a.leaving, a.more_due OR a.more_new INTO leaving, more FROM {s}.advance(e) AS a;
    ELSE
        -- A process may have ended between the numbering and the forwarding.
        leaving := EXISTS (SELECT FROM {s}.messages WHERE entity = e.id AND state = 7);
    END IF;
END $$;

-- How many messages have arrived or are due, and were not dealt with.
CREATE FUNCTION {s}.behind(p_entity bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    t timestamptz := {s}.now();
BEGIN
    RETURN (SELECT count(*) FROM {s}.messages WHERE entity = p_entity AND state = 0)
        + (SELECT count(*) FROM {s}.messages WHERE entity = p_entity AND due < 'infinity' AND due <= t AND state <> 0);
END $$;

-- Microseconds until something happens by itself at an entity; null if nothing will.
CREATE FUNCTION {s}.next_due(p_entity bigint, t timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (extract(epoch FROM least(
        (
            SELECT due FROM {s}.messages WHERE entity = p_entity AND due < 'infinity' AND state <> 0
            ORDER BY due LIMIT 1
        ),
        (
            SELECT due FROM {s}.messages WHERE entity = p_entity AND due < 'infinity' AND state = 0
            ORDER BY due LIMIT 1
        ),
        (SELECT until FROM {s}.sessions WHERE entity = p_entity AND token IS NOT NULL ORDER BY until LIMIT 1)
    ) - t) * 1000000)::bigint;
END $$;
