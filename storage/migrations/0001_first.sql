-- Ids are given by the writer; AUTOINCREMENT keeps those of deleted rows from being given again.

-- The deployments an operator wants, and whether each of their engines should run.
CREATE TABLE deployments (
    name     TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    spec     TEXT NOT NULL              -- JSON
) WITHOUT ROWID;

CREATE TABLE engines (
    name   TEXT PRIMARY KEY,
    wanted INTEGER NOT NULL             -- 0 or 1
) WITHOUT ROWID;

CREATE TABLE launches (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    engine           TEXT NOT NULL,
    started_at_s     REAL NOT NULL,
    pid              INTEGER NOT NULL,
    session_id       INTEGER NOT NULL,
    start_ticks      INTEGER NOT NULL,  -- with boot_id and pid it names the process for good
    boot_id          TEXT NOT NULL,
    log_path         TEXT NOT NULL,
    argv             TEXT NOT NULL,     -- JSON
    ready_at_s       REAL,
    ended_at_s       REAL,
    cause_kind       TEXT,
    cause_summary    TEXT,
    cause_hint       TEXT,
    exit_code        INTEGER,
    signal           TEXT,
    last_error_lines TEXT,              -- JSON
    retryable        INTEGER
);
CREATE INDEX launches_by_engine ON launches (engine, id);
CREATE INDEX launches_open ON launches (id) WHERE ended_at_s IS NULL;

CREATE TABLE events (
    id         INTEGER PRIMARY KEY AUTOINCREMENT, -- given by the writer, in the order of acceptance
    at_s       REAL NOT NULL,
    kind       TEXT NOT NULL,
    target     TEXT NOT NULL,
    message    TEXT NOT NULL,
    actor_name TEXT NOT NULL,
    actor_uid  INTEGER,
    severity   TEXT NOT NULL,
    reason     TEXT,
    outcome    TEXT
);
CREATE INDEX events_by_target ON events (target, id);

CREATE TABLE conversations (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    title         TEXT NOT NULL,
    model         TEXT NOT NULL,
    system_prompt TEXT NOT NULL,
    temperature   REAL NOT NULL,
    max_tokens    INTEGER NOT NULL,
    created_at_s  REAL NOT NULL,
    updated_at_s  REAL NOT NULL
);

CREATE TABLE messages (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id   INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    role              TEXT NOT NULL,
    content           TEXT NOT NULL,
    at_s              REAL NOT NULL,
    served_by         TEXT,
    ttft_s            REAL,
    tokens_per_s      REAL,
    completion_tokens INTEGER,
    prompt_tokens     INTEGER,
    cached_tokens     INTEGER,
    finish_reason     TEXT,
    error             TEXT
);
CREATE INDEX messages_by_conversation ON messages (conversation_id, id);

-- One wide row per GPU or engine and tick: 12 bytes a value, half of what a row per value takes.
-- The time comes first in the key: rows are appended, and a span is read and removed in one piece.
CREATE TABLE gpu_samples (
    at_s                  REAL NOT NULL,
    gpu_uuid              TEXT NOT NULL,
    utilisation_ratio     REAL,
    memory_used_bytes     INTEGER,
    memory_total_bytes    INTEGER,
    temperature_c         REAL,
    power_w               REAL,
    nvlink_tx_bytes_per_s REAL,
    nvlink_rx_bytes_per_s REAL,
    pcie_tx_bytes_per_s   REAL,
    pcie_rx_bytes_per_s   REAL,
    PRIMARY KEY (at_s, gpu_uuid)
) WITHOUT ROWID;

CREATE TABLE engine_samples (
    at_s                    REAL NOT NULL,
    engine                  TEXT NOT NULL,
    state                   TEXT NOT NULL,
    in_flight               INTEGER,
    running                 INTEGER,
    waiting                 INTEGER,
    kv_used_ratio           REAL,
    generation_tokens_per_s REAL,
    prompt_tokens_per_s     REAL,
    requests_per_s          REAL,
    ttft_p95_s              REAL,
    itl_p95_s               REAL,
    prefix_hit_ratio        REAL,
    PRIMARY KEY (at_s, engine)
) WITHOUT ROWID;

CREATE TABLE settings (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
