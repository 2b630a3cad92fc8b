-- Version 2. Queues that are deleted with the process that they belong to.

-- The holder that owns a queue.
ALTER TABLE {s}.entities ADD COLUMN owner integer;
CREATE INDEX entities_owner ON {s}.entities (owner) WHERE owner IS NOT NULL;

-- Creates a queue with the default settings that belongs to a holder. Answers with its path.
CREATE FUNCTION {s}.create_reply_queue(p_holder integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_path text := 'replies/' || gen_random_uuid();
    v_entity bigint;
BEGIN
    -- The holder is not removed meanwhile.
    PERFORM FROM {s}.holders WHERE id = p_holder FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the connection that owns reply queues was lost' USING ERRCODE = '55000';
    END IF;
    INSERT INTO {s}.entities (
        key, path, kind, status, max_deliveries, lock_ms, max_size, max_message_size, dead_on_expiry, dead_on_filter_error,
        sessions, owner
    ) VALUES (v_path, v_path, 0, 0, 10, 60000, 1073741824, 262144, false, false, false, p_holder)
    RETURNING id INTO v_entity;
    INSERT INTO {s}.numbers (entity, last) VALUES (v_entity, 0);
    RETURN v_path;
END $$;

-- A holder is removed when its connection has been lost for the time that the sweep allows.
CREATE FUNCTION {s}.remove_owned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {s}.remove(key) FROM {s}.entities WHERE owner = OLD.id;
    RETURN OLD;
END $$;
CREATE TRIGGER holders_removed BEFORE DELETE ON {s}.holders FOR EACH ROW EXECUTE FUNCTION {s}.remove_owned();
