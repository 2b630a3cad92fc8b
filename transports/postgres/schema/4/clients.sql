-- Functions for clients without this crate, as before.

-- An application property as a row has it, from a value of JSON: whole numbers are i64, those above it u64, others f64.
CREATE OR REPLACE FUNCTION {s}.client_tagged(p_value jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
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
            IF v_number = trunc(v_number) AND v_number BETWEEN -9223372036854775808 AND 18446744073709551615 THEN
                RETURN jsonb_build_object(CASE WHEN v_number > 9223372036854775807 THEN 'u64' ELSE 'i64' END, trunc(v_number));
            END IF;
            v_bits := ('x' || encode(float8send(v_number::float8), 'hex'))::bit(64)::bigint;
            RETURN jsonb_build_object('f64', CASE WHEN v_bits < 0 THEN v_bits + 18446744073709551616 ELSE v_bits END);
        ELSE
            RAISE EXCEPTION 'an application property is a string, a number, a boolean or null' USING ERRCODE = '22023';
    END CASE;
END $$;

-- Refuses more or larger properties than a message can have: 1,024, each at most 32,767 bytes with its name, all at most 65,534.
CREATE FUNCTION {s}.client_check_size(p_head jsonb, p_application jsonb) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_count bigint;
    v_largest bigint;
    v_all bigint;
BEGIN
    SELECT count(*), coalesce(max(bytes), 0), coalesce(sum(bytes), 0) INTO v_count, v_largest, v_all FROM (
        SELECT octet_length(key) + CASE jsonb_typeof(value)
            WHEN 'string' THEN octet_length(value #>> '{}') WHEN 'number' THEN 8 WHEN 'boolean' THEN 1 ELSE 0
        END AS bytes FROM jsonb_each(p_application)
    ) AS sizes;
    SELECT v_all + coalesce(sum(
        CASE jsonb_typeof(value) WHEN 'string' THEN octet_length(value #>> '{}') ELSE 8 END
    ), 0) INTO v_all FROM jsonb_each(p_head);
    IF v_count > 1024 THEN
        RAISE EXCEPTION 'a message has at most 1024 application properties' USING ERRCODE = '22023';
    ELSIF v_largest > 32767 THEN
        RAISE EXCEPTION 'an application property has at most 32767 bytes with its name' USING ERRCODE = '22023';
    ELSIF v_all > 65534 THEN
        RAISE EXCEPTION 'all properties together have at most 65534 bytes' USING ERRCODE = '22023';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION {s}.client_send(p_path text, p_body bytea, p_properties jsonb DEFAULT '{}') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_target record;
    v_head jsonb := coalesce(p_properties, '{}');
    v_application jsonb;
    v_id text;
    v_name text;
    v_value jsonb;
BEGIN
    IF p_body IS NULL THEN
        RAISE EXCEPTION 'the body is null; it may be empty' USING ERRCODE = '22023';
    ELSIF jsonb_typeof(v_head) <> 'object' THEN
        RAISE EXCEPTION 'the properties are an object' USING ERRCODE = '22023';
    END IF;
    FOR v_name, v_value IN SELECT * FROM jsonb_each(v_head) LOOP
        IF v_name NOT IN (
            'message_id', 'content_type', 'correlation_id', 'subject', 'reply_to', 'to', 'session_id',
            'reply_to_session_id', 'partition_key', 'time_to_live_ms', 'scheduled_enqueue_time', 'application'
        ) THEN
            RAISE EXCEPTION 'no such property: %; properties of your own are in application', v_name USING ERRCODE = '22023';
        ELSIF v_value = 'null' THEN
            v_head := v_head - v_name;
        ELSIF v_name = 'application' THEN
            IF jsonb_typeof(v_value) <> 'object' THEN
                RAISE EXCEPTION 'application is an object' USING ERRCODE = '22023';
            END IF;
        ELSIF v_name IN ('time_to_live_ms', 'scheduled_enqueue_time') THEN
            IF jsonb_typeof(v_value) <> 'number' OR v_value::numeric <> trunc(v_value::numeric)
                OR v_value::numeric NOT BETWEEN 1 AND 253402300799999 THEN
                RAISE EXCEPTION '% is a whole number of milliseconds, at least 1', v_name USING ERRCODE = '22023';
            END IF;
            -- It may have been written as 5000.0.
            v_head := v_head || jsonb_build_object(v_name, v_value::numeric::bigint);
        ELSIF jsonb_typeof(v_value) <> 'string' THEN
            RAISE EXCEPTION '% is text', v_name USING ERRCODE = '22023';
        ELSIF v_name IN ('message_id', 'session_id', 'reply_to_session_id', 'partition_key')
            AND {s}.client_units(v_value #>> '{}') > 128 THEN
            RAISE EXCEPTION '% has at most 128 UTF-16 code units', v_name USING ERRCODE = '22023';
        END IF;
    END LOOP;
    v_application := coalesce(v_head -> 'application', '{}');
    v_id := coalesce(v_head ->> 'message_id', gen_random_uuid()::text);
    v_head := v_head - 'application' || jsonb_build_object('message_id', v_id);
    IF v_id = '' THEN
        RAISE EXCEPTION 'message_id is empty' USING ERRCODE = '22023';
    ELSIF v_head ->> 'partition_key' <> v_head ->> 'session_id' THEN
        RAISE EXCEPTION 'partition_key differs from session_id' USING ERRCODE = '22023';
    END IF;
    PERFORM {s}.client_check_size(v_head, v_application);
    IF v_application <> '{}' THEN
        SELECT v_head || jsonb_build_object('application', jsonb_object_agg(key, {s}.client_tagged(value))) INTO v_head
        FROM jsonb_each(v_application);
    END IF;
    v_target := {s}.client_entity(p_path);
    IF v_target.part <> 0 OR EXISTS (SELECT FROM {s}.entities WHERE id = v_target.entity AND kind = 2) THEN
        RAISE EXCEPTION 'nothing is sent to a subscription or a sub-queue' USING ERRCODE = 'CN409';
    END IF;
    PERFORM {s}.send(
        v_target.entity, 0::smallint, 0, NULL, ARRAY[v_head::text], ARRAY[p_body],
        ARRAY[octet_length(p_body) + octet_length(v_head::text)], ARRAY[convert_to(v_id, 'UTF8')],
        ARRAY[convert_to(v_head ->> 'session_id', 'UTF8')], ARRAY[(v_head ->> 'scheduled_enqueue_time')::bigint],
        ARRAY[(v_head ->> 'time_to_live_ms')::bigint]
    );
    PERFORM {s}.client_notify(v_target.entity);
    RETURN v_id;
END $$;

-- Properties with p_nul in place of each NUL, which text may have in JSON, and not in jsonb. Its literals do not depend on
-- standard_conforming_strings, which is that of the client.
CREATE FUNCTION {s}.client_json(p_properties text, p_nul text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN position(E'\\u0000' IN p_properties) = 0 THEN p_properties
        ELSE regexp_replace(p_properties, E'(?<!\\\\)((?:\\\\\\\\)*)\\\\u0000', E'\\1' || p_nul, 'g')
    END::jsonb
$$;

CREATE OR REPLACE FUNCTION {s}.client_receive(p_path text, p_max integer DEFAULT 1) RETURNS TABLE (
    id bigint, lock uuid, locked_until timestamptz, body bytea, properties jsonb, sequence_number bigint,
    enqueued timestamptz, delivery_count integer, dead_letter_reason text, dead_letter_description text
) LANGUAGE plpgsql
-- That a lock does not wait for the disk ends with the function: the transaction may be the caller's own.
SET synchronous_commit = on
AS $$
#variable_conflict use_column
DECLARE
    v_source record := {s}.client_entity(p_path);
    v_holder integer := nullif(current_setting('consign.holder', true), '')::integer;
    v_token uuid := gen_random_uuid();
    v_application jsonb;
    v_more boolean;
    m record;
BEGIN
    IF coalesce(p_max, 0) < 1 THEN
        RAISE EXCEPTION 'max is at least 1' USING ERRCODE = '22023';
    END IF;
    -- One round does a batch of what is due.
    FOR round IN 1 .. 100 LOOP
        v_more := false;
        FOR m IN
            SELECT * FROM {s}.receive(
                v_source.entity, v_source.part, NULL, NULL, v_token, least(p_max, 1000), 16777216, v_holder
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
            properties := {s}.client_json(m.properties, chr(65533));
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

CREATE OR REPLACE FUNCTION {s}.client_renew(p_id bigint, p_lock uuid) RETURNS timestamptz LANGUAGE sql
SET synchronous_commit = on
AS $$
    SELECT to_timestamp({s}.renew(p_id, p_lock) / 1000.0)
$$;

CREATE OR REPLACE FUNCTION {s}.client_settle(p_id bigint, p_lock uuid, p_action smallint, p_properties text, p_size integer)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_entity bigint;
    v_answer smallint;
BEGIN
    SELECT entity INTO v_entity FROM {s}.locks WHERE token = p_lock;
    IF NOT FOUND THEN
        SELECT entity INTO v_entity FROM {s}.messages WHERE id = p_id;
    END IF;
    v_answer := {s}.settle(v_entity, p_id, p_lock, NULL, p_action, p_properties, p_size, NULL);
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

CREATE OR REPLACE FUNCTION {s}.client_dead_letter(p_id bigint, p_lock uuid, p_reason text, p_description text DEFAULT '')
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_nul text := gen_random_uuid();
    v_properties jsonb;
    v_size integer;
    -- A text that is empty, or null, is left out.
    v_application jsonb := jsonb_strip_nulls(jsonb_build_object(
        'DeadLetterReason', CASE WHEN p_reason <> '' THEN jsonb_build_object('string', left(p_reason, 2048)) END,
        'DeadLetterErrorDescription',
        CASE WHEN p_description <> '' THEN jsonb_build_object('string', left(p_description, 2048)) END
    ));
BEGIN
    SELECT {s}.client_json(m.properties, v_nul), m.size INTO v_properties, v_size FROM (
        SELECT properties, size FROM {s}.messages WHERE id = p_id UNION ALL SELECT properties, size FROM {s}.plain WHERE id = p_id
    ) AS m;
    v_application := coalesce(v_properties -> 'application', '{}') - ARRAY['DeadLetterReason', 'DeadLetterErrorDescription']
        || v_application;
    v_properties := v_properties || jsonb_build_object('application', v_application);
    RETURN {s}.client_settle(p_id, p_lock, 2::smallint, replace(v_properties::text, v_nul, E'\\u0000'), v_size);
END $$;

-- Clients of version 3 call the functions below. They may settle what they have.
CREATE FUNCTION {s}.send(
    bigint, bigint, smallint, text, text[], bytea[], integer[], bytea[], bytea[], bigint[], bigint[],
    OUT id bigint, OUT ids bigint[], OUT firsts bigint[]
) LANGUAGE plpgsql AS $$ BEGIN PERFORM {s}.too_old(); END $$;
CREATE FUNCTION {s}.receive(bigint, smallint, bytea, uuid, integer, bigint, integer, uuid)
RETURNS SETOF {s}.delivery LANGUAGE plpgsql AS $$ BEGIN PERFORM {s}.too_old(); END $$;
