-- Version 4. Messages that take the common path are in a table of their own, whose rows are narrow and have one index. Such a
-- message gets a row of `messages` when it leaves that path.

-- Who sends meanwhile waits, and fails at the constraint below.
LOCK TABLE {s}.messages IN ACCESS EXCLUSIVE MODE;

-- The send or the lock of such a message says of which entity it is.
CREATE TABLE {s}.plain (
    id bigint NOT NULL,
    enqueued timestamptz NOT NULL,
    size integer NOT NULL,
    ttl_ms bigint,
    -- As in `messages`, and null where that has 0.
    origin bigint,
    hops smallint,
    source text,
    properties text NOT NULL,
    body bytea NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE {s}.plain ALTER body SET STORAGE EXTERNAL;

INSERT INTO {s}.plain (id, enqueued, size, ttl_ms, origin, hops, source, properties, body)
SELECT id, enqueued, size, ttl_ms, nullif(origin, 0), nullif(hops, 0), source, properties, body FROM {s}.messages WHERE state < 0;
-- One by one the entries of a filled table would take longer.
ALTER TABLE {s}.plain ADD PRIMARY KEY (id);
DELETE FROM {s}.messages WHERE state < 0;
ALTER TABLE {s}.messages ADD CONSTRAINT messages_are_not_plain CHECK (state >= 0);

-- When a message of this table expires.
CREATE FUNCTION {s}.expires(m {s}.plain) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT coalesce(m.enqueued + m.ttl_ms * interval '1 millisecond', 'infinity')
$$;
