-- The store, version 4 (migrate.c lifts older ones). Goldens and ledger rows are never changed or removed: triggers
-- refuse; only row hashes may still come to a golden that has none.
CREATE TABLE golden (
    id INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE,       -- of the canonical text, the golden's identity
    model TEXT NOT NULL, battery TEXT NOT NULL, arm TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'pending', 'negative')),
    bytes INTEGER NOT NULL,            -- of the canonical text
    text BLOB NOT NULL,                -- zstd
    row_hashes BLOB,                   -- SHA-256 of every decode-shaped row in file order, or NULL
    created TEXT NOT NULL
) STRICT;
CREATE INDEX golden_by_name ON golden (model, battery, arm);

CREATE TABLE source (                  -- files that were imported, by their own hash
    sha256 TEXT PRIMARY KEY, path TEXT NOT NULL,
    golden INTEGER REFERENCES golden (id), battery INTEGER REFERENCES battery (id)
) STRICT;

CREATE TABLE battery (
    id INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE,       -- of the file
    name TEXT NOT NULL,
    tokenizer_sha256 TEXT NOT NULL, max_new_tokens INTEGER NOT NULL, stop_at_eos INTEGER NOT NULL,
    razor_ulp REAL NOT NULL, razor_cap_nats REAL NOT NULL, note TEXT NOT NULL,
    prompts TEXT NOT NULL              -- JSON: [{name, text, ids}]
) STRICT;

CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    started TEXT NOT NULL, finished TEXT,
    model TEXT NOT NULL, model_sha256 TEXT NOT NULL, battery TEXT NOT NULL, battery_sha256 TEXT NOT NULL,
    golden_sha256 TEXT NOT NULL, arm TEXT NOT NULL, commit_id TEXT NOT NULL,
    verdict TEXT, summary TEXT,
    shard TEXT NOT NULL DEFAULT ''     -- 'I/N': only the prompts of that shard; such a run never gets a verdict
) STRICT;
CREATE INDEX run_by_key ON run (model_sha256, battery_sha256, golden_sha256, arm);

CREATE TABLE stream (                  -- what an engine answered, stored before anything judges it
    run INTEGER NOT NULL REFERENCES run (id), prompt TEXT NOT NULL, phase INTEGER NOT NULL,
    sha256 TEXT NOT NULL, bytes INTEGER NOT NULL, -- of the unpacked record
    record BLOB NOT NULL,              -- zstd
    PRIMARY KEY (run, prompt, phase)
) STRICT, WITHOUT ROWID;

CREATE TABLE position (                -- one judged position with the inputs of the decision; NULL: not known
    run INTEGER NOT NULL REFERENCES run (id), prompt TEXT NOT NULL, position INTEGER NOT NULL,
    forced INTEGER NOT NULL, root INTEGER NOT NULL, verdict TEXT NOT NULL,
    golden_id INTEGER NOT NULL, arm_id INTEGER NOT NULL,
    gap_nats REAL, gap_ulp REAL, gap_bound_nats REAL, ulp REAL, razor_nats REAL, jitter_nats REAL,
    self_gap_nats REAL, ties INTEGER NOT NULL,
    PRIMARY KEY (run, prompt, position, forced)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger (                  -- each row hashes the one before
    seq INTEGER PRIMARY KEY,
    at TEXT NOT NULL, kind TEXT NOT NULL, what TEXT NOT NULL, -- what: one JSON object
    before TEXT NOT NULL, sha256 TEXT NOT NULL
) STRICT;
CREATE INDEX ledger_by_golden ON ledger (json_extract(what, '$.golden'));

CREATE TRIGGER golden_kept BEFORE DELETE ON golden BEGIN SELECT RAISE(ABORT, 'goldens are never removed'); END;
CREATE TRIGGER golden_sealed BEFORE UPDATE ON golden
WHEN old.row_hashes IS NOT NULL OR old.id IS NOT new.id OR old.sha256 IS NOT new.sha256 OR old.model IS NOT new.model
    OR old.battery IS NOT new.battery OR old.arm IS NOT new.arm OR old.status IS NOT new.status
    OR old.bytes IS NOT new.bytes OR old.text IS NOT new.text OR old.created IS NOT new.created
BEGIN SELECT RAISE(ABORT, 'goldens are never changed'); END;
CREATE TRIGGER ledger_kept BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_sealed BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- since version 4: migrate.c runs what follows on older stores.
CREATE TABLE record (                  -- anchors, the oracle's evidence, KLD files: each named by the ledger
    sha256 TEXT PRIMARY KEY,           -- of the unpacked bytes
    kind TEXT NOT NULL, name TEXT NOT NULL,
    bytes INTEGER NOT NULL, data BLOB NOT NULL, -- zstd
    created TEXT NOT NULL
) STRICT;
CREATE TABLE head (                    -- the newest ledger row: a chain does not miss its last link by itself
    one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, sha256 TEXT NOT NULL
) STRICT;
INSERT INTO head SELECT 1, seq, sha256 FROM ledger ORDER BY seq DESC LIMIT 1;
CREATE TRIGGER head_follows AFTER INSERT ON ledger
BEGIN INSERT OR REPLACE INTO head VALUES (1, new.seq, new.sha256); END;

CREATE INDEX ledger_by_run ON ledger (json_extract(what, '$.run'));
CREATE INDEX ledger_by_battery ON ledger (json_extract(what, '$.sealed_battery'));
CREATE INDEX ledger_by_anchor ON ledger (json_extract(what, '$.anchor_key'));
CREATE INDEX ledger_by_record ON ledger (json_extract(what, '$.record'));
CREATE INDEX ledger_by_kind ON ledger (kind);

CREATE VIEW golden_now AS              -- a golden's status is what the ledger said last
SELECT g.*, coalesce((SELECT json_extract(l.what, '$.status') FROM ledger AS l
    WHERE json_extract(l.what, '$.golden') = g.sha256 AND json_extract(l.what, '$.status') IS NOT NULL
    ORDER BY l.seq DESC LIMIT 1), g.status) AS status_now
FROM golden AS g;

-- A finished run is sealed by a ledger row of kind 'run'; from then on nothing of it changes.
CREATE TRIGGER run_sealed BEFORE UPDATE ON run
WHEN EXISTS (SELECT 1 FROM ledger WHERE json_extract(what, '$.run') = old.id AND kind = 'run')
BEGIN SELECT RAISE(ABORT, 'finished runs are never changed'); END;
CREATE TRIGGER run_kept BEFORE DELETE ON run
WHEN EXISTS (SELECT 1 FROM ledger WHERE json_extract(what, '$.run') = old.id AND kind = 'run')
BEGIN SELECT RAISE(ABORT, 'finished runs are never removed'); END;
CREATE TRIGGER stream_sealed BEFORE UPDATE ON stream
WHEN EXISTS (SELECT 1 FROM ledger WHERE json_extract(what, '$.run') = old.run AND kind = 'run')
BEGIN SELECT RAISE(ABORT, 'answers of a finished run are never changed'); END;
CREATE TRIGGER stream_kept BEFORE DELETE ON stream
WHEN EXISTS (SELECT 1 FROM ledger WHERE json_extract(what, '$.run') = old.run AND kind = 'run')
BEGIN SELECT RAISE(ABORT, 'answers of a finished run are never removed'); END;
CREATE TRIGGER position_sealed BEFORE UPDATE ON position
WHEN EXISTS (SELECT 1 FROM ledger WHERE json_extract(what, '$.run') = old.run AND kind = 'run')
BEGIN SELECT RAISE(ABORT, 'verdicts are never changed'); END;
CREATE TRIGGER position_kept BEFORE DELETE ON position
WHEN EXISTS (SELECT 1 FROM ledger WHERE json_extract(what, '$.run') = old.run AND kind = 'run')
BEGIN SELECT RAISE(ABORT, 'verdicts are never removed'); END;
CREATE TRIGGER record_sealed BEFORE UPDATE ON record BEGIN SELECT RAISE(ABORT, 'records are never changed'); END;
CREATE TRIGGER record_kept BEFORE DELETE ON record BEGIN SELECT RAISE(ABORT, 'records are never removed'); END;
