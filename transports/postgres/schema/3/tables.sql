-- Version 3. Messages that were sent together, or are locked together, share one row until one of them leaves the common path.
-- Such a message has the state -1: it is in `batches` until it is received, and then in `locks`. It is written once, and
-- deleted once.

-- An id is 1,024 times the number of its send, and the position in that.
CREATE SEQUENCE {s}.sends;
SELECT setval(format('%I.sends', {l})::regclass, last_value + 1) FROM {s}.arrivals;
-- The sequence is a constant in it: a name would be looked up by each send.
DO $$
BEGIN
    EXECUTE format(
        'CREATE FUNCTION %I.next_id() RETURNS bigint LANGUAGE sql AS %L', {l},
        format('SELECT nextval(%L::regclass) << 10', format('%I.sends', {l}))
    );
END $$;

DROP INDEX {s}.messages_number, {s}.messages_due;
ALTER TABLE {s}.messages
    ALTER id DROP IDENTITY,
    ALTER id SET DEFAULT {s}.next_id(),
    ALTER properties TYPE text USING properties::text,
    SET (fillfactor = 100);
-- Nothing else shows that these are not ready or due: the planner takes the indexes of those.
CREATE INDEX messages_number ON {s}.messages (entity, part, number) WHERE number IS NOT NULL;
-- By holder too, for the locks of a lost process: an index of its own would be one more write for each lock.
CREATE INDEX messages_due ON {s}.messages (entity, due, holder) WHERE due < 'infinity' AND state > 0;

-- Messages that have arrived, were sent together, and have no number.
CREATE TABLE {s}.batches (
    entity bigint NOT NULL,
    -- The id of the first. Those of the others follow without a gap.
    id bigint NOT NULL,
    count integer NOT NULL,
    -- How many of them have been received.
    taken integer NOT NULL DEFAULT 0,
    -- The bytes of the largest.
    size integer NOT NULL,
    -- When the first of them expires.
    due timestamptz NOT NULL,
    PRIMARY KEY (entity, id)
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX batches_due ON {s}.batches (entity, due) WHERE due < 'infinity';

-- Messages that were received together, as long as each of them is locked or completed. A row is not changed: a message that
-- is settled in another way gets the state of a row of its own.
CREATE TABLE {s}.locks (
    token uuid PRIMARY KEY,
    entity bigint NOT NULL,
    until timestamptz NOT NULL,
    holder integer,
    -- The sequence number of the first.
    number bigint NOT NULL,
    -- Ids without a gap: the first of each run, and how many there are.
    ids bigint[] NOT NULL,
    counts integer[] NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX locks_until ON {s}.locks (entity, until);

-- The ids of runs, and their positions from 0 on.
CREATE FUNCTION {s}.members(p_ids bigint[], p_counts integer[]) RETURNS TABLE (id bigint, "position" bigint)
LANGUAGE sql IMMUTABLE AS $$
    SELECT r.id + g, r.before + g
    FROM (
        SELECT u.id, u.count, sum(u.count) OVER (ORDER BY u.run) - u.count AS before
        FROM unnest(p_ids, p_counts) WITH ORDINALITY AS u (id, count, run)
    ) AS r, generate_series(0, r.count - 1) AS g
$$;

-- The position of an id; null if it is not one of them.
CREATE FUNCTION {s}.position_of(p_id bigint, p_ids bigint[], p_counts integer[]) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_before bigint := 0;
BEGIN
    FOR i IN 1 .. cardinality(p_ids) LOOP
        IF p_id >= p_ids[i] AND p_id < p_ids[i] + p_counts[i] THEN
            RETURN v_before + p_id - p_ids[i];
        END IF;
        v_before := v_before + p_counts[i];
    END LOOP;
    RETURN NULL;
END $$;
