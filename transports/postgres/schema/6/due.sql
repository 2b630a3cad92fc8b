-- Ends a lock, a delay, or the time to live of messages. p_failed is 1 if a delivery failed, else 0.
CREATE OR REPLACE FUNCTION {s}.unlock(e {s}.entities, p_ids bigint[], t timestamptz, p_failed integer) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    IF NOT e.dead_on_expiry THEN
        DELETE FROM {s}.messages
        WHERE id = ANY (p_ids) AND part = 0 AND state IN (1, 2, 6) AND expires <= t
            AND (expires <= least(t, due) OR NOT (p_failed > 0 AND failures + p_failed >= e.max_deliveries));
    END IF;
    UPDATE {s}.messages AS m SET
        token = NULL,
        holder = NULL,
        part = CASE WHEN fate > 2 THEN 1 ELSE m.part END,
        state = CASE
            -- A deferred message stays so, also as a dead letter.
            WHEN m.state = 4 THEN 3
            -- A dead letter was locked when its entity began to forward those.
            WHEN (fate > 2 OR fate = 0) AND e.forward_dead_to IS NOT NULL AND NOT m.stays THEN 7
            -- It was locked when its entity began to forward.
            WHEN fate = 2 AND e.forward_to IS NOT NULL THEN 7
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
            -- What comes first counts, the expiry or the end of the lock.
            WHEN expires <= least(t, due) THEN 4
            WHEN p_failed > 0 AND failures + p_failed >= e.max_deliveries THEN 3
            WHEN expires <= t THEN 4
            ELSE 2
        END AS fate
        FROM {s}.messages WHERE id = ANY (p_ids)
    ) AS fates
    WHERE m.id = fates.id;
END $$;
