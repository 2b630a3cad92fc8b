-- Functions for clients without this crate. Their names, arguments and results stay the same.

-- The entity and the part that a path names.
CREATE FUNCTION {s}.client_entity(p_path text, OUT entity bigint, OUT part smallint) LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_key text := lower(trim(BOTH '/' FROM p_path));
    v_dead CONSTANT text := '/$deadletterqueue';
BEGIN
    part := 0;
    IF right(v_key, length(v_dead)) = v_dead THEN
        part := 1;
        v_key := left(v_key, -length(v_dead));
    END IF;
    SELECT id INTO entity FROM {s}.entities WHERE key = v_key;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such entity: %', p_path USING ERRCODE = 'CN404';
    END IF;
END $$;

-- An application property as a row has it, from a value of JSON: whole numbers are i64, others f64.
CREATE FUNCTION {s}.client_tagged(p_value jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_number numeric;
    v_bits numeric;
BEGIN
    CASE jsonb_typeof(p_value)
        WHEN 'string' THEN RETURN jsonb_build_object('string', p_value);
        WHEN 'boolean' THEN RETURN jsonb_build_object('bool', p_value);
        WHEN 'null' THEN RETURN '"null"';
        WHEN 'number' THEN
            v_number := p_value::numeric;
            IF v_number = trunc(v_number) AND v_number BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
                RETURN jsonb_build_object('i64', trunc(v_number));
            END IF;
            v_bits := ('x' || encode(float8send(v_number::float8), 'hex'))::bit(64)::bigint;
            RETURN jsonb_build_object('f64', CASE WHEN v_bits < 0 THEN v_bits + 18446744073709551616 ELSE v_bits END);
        ELSE
            RAISE EXCEPTION 'an application property is a string, a number, a boolean or null' USING ERRCODE = '22023';
    END CASE;
END $$;

-- The same back. Types that JSON does not have stay objects with one member, the type.
CREATE FUNCTION {s}.client_plain(p_value jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_bits numeric;
    v_exponent integer;
    v_value float8;
BEGIN
    IF p_value = '"null"' THEN
        RETURN 'null';
    ELSIF p_value ? 'f64' THEN
        v_bits := (p_value -> 'f64')::numeric;
        v_exponent := div(v_bits, 4503599627370496)::bigint & 2047;
        IF v_exponent IN (0, 2047) AND v_bits % 9223372036854775808 <> 0 THEN
            RETURN p_value;
        END IF;
        v_value := CASE v_exponent
            WHEN 0 THEN 0
            ELSE (1 + (v_bits % 4503599627370496)::float8 / 4503599627370496) * power(2::float8, v_exponent - 1023)
        END;
        RETURN to_jsonb(CASE WHEN v_bits >= 9223372036854775808 THEN -v_value ELSE v_value END);
    END IF;
    RETURN coalesce(
        p_value -> 'string', p_value -> 'bool', p_value -> 'i64', p_value -> 'i32', p_value -> 'i16', p_value -> 'i8',
        p_value -> 'u64', p_value -> 'u32', p_value -> 'u16', p_value -> 'u8', p_value
    );
END $$;

CREATE FUNCTION {s}.client_notify(p_entity bigint) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('consign ' || {l}, CASE WHEN kind = 1 OR forward_to IS NOT NULL THEN '!' ELSE '' END || id)
    FROM {s}.entities WHERE id = p_entity
$$;

-- Sends a message to a queue or a topic. Answers with its MessageId.
CREATE FUNCTION {s}.client_send(p_path text, p_body bytea, p_properties jsonb DEFAULT '{}') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_target record;
    v_id text := coalesce(p_properties ->> 'message_id', gen_random_uuid()::text);
    v_head jsonb := jsonb_strip_nulls(p_properties - 'application') || jsonb_build_object('message_id', v_id);
    v_application jsonb := coalesce(p_properties -> 'application', '{}');
    v_name text;
    v_value jsonb;
BEGIN
    FOR v_name, v_value IN SELECT * FROM jsonb_each(v_head) LOOP
        IF v_name IN ('time_to_live_ms', 'scheduled_enqueue_time') THEN
            IF jsonb_typeof(v_value) <> 'number' OR v_value::numeric <> trunc(v_value::numeric)
                OR v_value::numeric NOT BETWEEN 1 AND 253402300799999 THEN
                RAISE EXCEPTION '% is a whole number of milliseconds, at least 1', v_name USING ERRCODE = '22023';
            END IF;
        ELSIF v_name NOT IN (
            'message_id', 'content_type', 'correlation_id', 'subject', 'reply_to', 'to', 'session_id',
            'reply_to_session_id', 'partition_key'
        ) THEN
            RAISE EXCEPTION 'no such property: %; properties of your own are in application', v_name USING ERRCODE = '22023';
        ELSIF jsonb_typeof(v_value) <> 'string' THEN
            RAISE EXCEPTION '% is text', v_name USING ERRCODE = '22023';
        ELSIF v_name IN ('message_id', 'session_id', 'reply_to_session_id', 'partition_key')
            AND char_length(v_value #>> '{}') > 128 THEN
            RAISE EXCEPTION '% has at most 128 characters', v_name USING ERRCODE = '22023';
        END IF;
    END LOOP;
    IF jsonb_typeof(v_application) <> 'object' THEN
        RAISE EXCEPTION 'application is an object' USING ERRCODE = '22023';
    END IF;
    IF v_application <> '{}' THEN
        SELECT v_head || jsonb_build_object('application', jsonb_object_agg(key, {s}.client_tagged(value))) INTO v_head
        FROM jsonb_each(v_application);
    END IF;
    v_target := {s}.client_entity(p_path);
    IF v_target.part <> 0 OR EXISTS (SELECT FROM {s}.entities WHERE id = v_target.entity AND kind = 2) THEN
        RAISE EXCEPTION 'nothing is sent to a subscription or a sub-queue' USING ERRCODE = 'CN409';
    END IF;
    PERFORM {s}.send(
        v_target.entity, ARRAY[v_head::text], ARRAY[p_body], ARRAY[octet_length(p_body) + octet_length(v_head::text)],
        ARRAY[convert_to(v_id, 'UTF8')], ARRAY[convert_to(v_head ->> 'session_id', 'UTF8')],
        ARRAY[(v_head ->> 'scheduled_enqueue_time')::bigint], ARRAY[(v_head ->> 'time_to_live_ms')::bigint],
        0, 0::smallint, NULL
    );
    PERFORM {s}.client_notify(v_target.entity);
    RETURN v_id;
END $$;

-- Locks up to p_max messages of a queue, a subscription or a dead-letter queue. It does not wait for messages.
CREATE FUNCTION {s}.client_receive(p_path text, p_max integer DEFAULT 1) RETURNS TABLE (
    id bigint, lock uuid, locked_until timestamptz, body bytea, properties jsonb, sequence_number bigint,
    enqueued timestamptz, delivery_count integer, dead_letter_reason text, dead_letter_description text
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_source record := {s}.client_entity(p_path);
    v_holder integer := nullif(current_setting('consign.holder', true), '')::integer;
    v_token uuid := gen_random_uuid();
    v_application jsonb;
    v_more boolean;
    m record;
BEGIN
    -- One round does a batch of what is due.
    FOR round IN 1 .. 100 LOOP
        v_more := false;
        FOR m IN
            SELECT * FROM {s}.receive(
                v_source.entity, v_source.part, least(greatest(p_max, 1), 1000), 16777216, v_holder, v_token, NULL, NULL
            ) AS r ORDER BY r.number NULLS FIRST
        LOOP
            IF m.id IS NULL THEN
                v_more := m.more;
                CONTINUE;
            END IF;
            id := m.id;
            lock := v_token;
            locked_until := m.locked_until;
            body := m.body;
            sequence_number := m.number;
            enqueued := m.enqueued;
            delivery_count := m.failures + 1;
            properties := m.properties::jsonb;
            SELECT jsonb_object_agg(key, {s}.client_plain(value)) INTO v_application
            FROM jsonb_each(properties -> 'application');
            dead_letter_reason := coalesce(m.reason, v_application ->> 'DeadLetterReason');
            dead_letter_description := coalesce(m.description, v_application ->> 'DeadLetterErrorDescription');
            IF v_application IS NOT NULL THEN
                properties := properties || jsonb_build_object('application', v_application);
            END IF;
            RETURN NEXT;
            v_more := false;
        END LOOP;
        EXIT WHEN NOT v_more;
    END LOOP;
END $$;

-- Settles a message. False if its lock is lost.
CREATE FUNCTION {s}.client_settle(p_id bigint, p_lock uuid, p_action smallint, p_properties text, p_size integer)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_entity bigint;
    v_answer smallint;
BEGIN
    SELECT entity INTO v_entity FROM {s}.messages WHERE id = p_id AND token = p_lock;
    v_answer := {s}.settle(p_id, p_lock, NULL, p_action, p_properties, p_size, NULL);
    IF v_answer = 4 THEN
        RAISE EXCEPTION 'it is a dead letter already' USING ERRCODE = 'CN409';
    ELSIF v_answer = 5 THEN
        RAISE EXCEPTION 'the entity is closed to receivers' USING ERRCODE = 'CN423';
    END IF;
    IF v_answer IN (0, 1) AND p_action <> 0 THEN
        PERFORM {s}.client_notify(v_entity);
    END IF;
    RETURN v_answer IN (0, 1);
END $$;

CREATE FUNCTION {s}.client_complete(p_id bigint, p_lock uuid) RETURNS boolean LANGUAGE sql AS $$
    SELECT {s}.client_settle(p_id, p_lock, 0::smallint, NULL, NULL)
$$;

CREATE FUNCTION {s}.client_abandon(p_id bigint, p_lock uuid) RETURNS boolean LANGUAGE sql AS $$
    SELECT {s}.client_settle(p_id, p_lock, 1::smallint, NULL, NULL)
$$;

CREATE FUNCTION {s}.client_dead_letter(p_id bigint, p_lock uuid, p_reason text, p_description text DEFAULT '')
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_properties jsonb;
    v_size integer;
    v_application jsonb := jsonb_build_object(
        'DeadLetterReason', jsonb_build_object('string', left(p_reason, 2048)),
        'DeadLetterErrorDescription', jsonb_build_object('string', left(p_description, 2048))
    );
BEGIN
    SELECT properties::jsonb, size INTO v_properties, v_size FROM {s}.messages WHERE id = p_id AND token = p_lock;
    v_application := coalesce(v_properties -> 'application', '{}') || v_application;
    v_properties := v_properties || jsonb_build_object('application', v_application);
    RETURN {s}.client_settle(p_id, p_lock, 2::smallint, v_properties::text, v_size);
END $$;

-- Extends a lock. Answers until when it holds; null if it is lost.
CREATE FUNCTION {s}.client_renew(p_id bigint, p_lock uuid) RETURNS timestamptz LANGUAGE sql AS $$
    SELECT to_timestamp({s}.renew(p_id, p_lock) / 1000.0)
$$;

-- Has this connection notified of new messages. Its locks are released, and its reply queues are deleted, after it is lost.
CREATE FUNCTION {s}.client_listen() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_holder integer := nullif(current_setting('consign.holder', true), '')::integer;
BEGIN
    EXECUTE format('LISTEN %I', 'consign ' || {l});
    IF v_holder IS NOT NULL AND EXISTS (SELECT FROM {s}.holders WHERE id = v_holder) THEN
        RETURN;
    END IF;
    -- No other process sees the row before its lock is taken.
    INSERT INTO {s}.holders DEFAULT VALUES RETURNING id INTO v_holder;
    PERFORM pg_advisory_lock({s}.lock_class(), v_holder);
    PERFORM set_config('consign.holder', v_holder::text, false);
    PERFORM pg_notify('consign ' || {l}, '+' || v_holder);
END $$;

-- Creates a queue for the replies to this connection. Answers with its path.
CREATE FUNCTION {s}.client_reply_queue() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {s}.client_listen();
    RETURN {s}.create_reply_queue(current_setting('consign.holder')::integer);
END $$;
