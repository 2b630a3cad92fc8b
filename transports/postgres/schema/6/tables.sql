-- Version 6. The columns stay as they are, and clients of versions 4 and 5 call the same functions.

-- Dead letters that may have to leave: `let_stranded_leave`. Those that stay, or wait for their next attempt, are not read.
CREATE INDEX messages_stranded ON {s}.messages (entity, number)
WHERE part = 1 AND state = 1 AND due = 'infinity' AND NOT stays;

