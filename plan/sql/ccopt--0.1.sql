\echo Use "CREATE EXTENSION ccopt" to load this file. \quit

-- Counts of each node; docs/plan.md explains the columns.
CREATE FUNCTION ccopt_stats(
    OUT node text, OUT uses bigint, OUT batches bigint, OUT rows_in bigint, OUT rows_out bigint,
    OUT odd_rows bigint, OUT fallbacks bigint, OUT spills bigint,
    OUT cache_hits bigint, OUT cache_fills bigint, OUT scope text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW ccopt_stats AS SELECT * FROM ccopt_stats();
GRANT SELECT ON ccopt_stats TO PUBLIC;

-- Resets the counts of all sessions where the library was preloaded: not granted to PUBLIC.
CREATE FUNCTION ccopt_stats_reset() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
REVOKE ALL ON FUNCTION ccopt_stats_reset() FROM PUBLIC;

-- Limit, contents and counts of the column cache; docs/plan.md explains the columns.
CREATE FUNCTION ccopt_cache(
    OUT state text, OUT limit_bytes bigint, OUT used_bytes bigint, OUT chunks bigint, OUT hits bigint, OUT misses bigint,
    OUT fills bigint, OUT stale_chunks bigint, OUT evicted_chunks bigint, OUT refused_fills bigint,
    OUT pinned_segments bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW ccopt_cache AS SELECT * FROM ccopt_cache();
GRANT SELECT ON ccopt_cache TO PUBLIC;

-- Times of plans with ccopt's nodes beside those of PostgreSQL's own plans: docs/plan.md.
-- statement_id: as `hardmeter queries` and `hardmeter split` print it; query_id: pg_stat_statements'.
CREATE FUNCTION ccopt_shapes(
    OUT shape text, OUT statement_id text, OUT query_id bigint, OUT state text, OUT ratio double precision, OUT pairs integer,
    OUT runs bigint, OUT mean_ms double precision, OUT stock_runs bigint, OUT stock_mean_ms double precision,
    OUT stock_predicted_ms double precision, OUT query text, OUT scope text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'ccopt_shapes_list' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW ccopt_shapes AS SELECT * FROM ccopt_shapes();
GRANT SELECT ON ccopt_shapes TO PUBLIC;

-- Forgets the shapes of this database; returns how many there were.
CREATE FUNCTION ccopt_shapes_reset() RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
REVOKE ALL ON FUNCTION ccopt_shapes_reset() FROM PUBLIC;

-- Results of ccopt_calibrate(), by machine and server: a copy of the database on another machine does not use them.
-- The library reads the first five columns by their order (src/costs_in_force.c).
CREATE TABLE calibration (
    processor text NOT NULL,
    server text NOT NULL,
    library text NOT NULL,
    name text NOT NULL,
    value double precision NOT NULL,
    measured_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (processor, server, library, name));
GRANT SELECT ON calibration TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('calibration', '');

-- Measures this machine in about five seconds; makes and drops tables, so it is not granted to PUBLIC.
-- max_spread: allowed difference between two measurements of one query, as a fraction.
CREATE FUNCTION ccopt_calibrate(max_spread double precision DEFAULT 0.05) RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION ccopt_calibrate(double precision) FROM PUBLIC;

-- The cost constants in force in this session, and the source of each.
CREATE FUNCTION ccopt_constants(
    OUT name text, OUT value double precision, OUT unit text, OUT built_in double precision,
    OUT source text, OUT meaning text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW ccopt_constants AS SELECT * FROM ccopt_constants();
GRANT SELECT ON ccopt_constants TO PUBLIC;
GRANT USAGE ON SCHEMA ccopt TO PUBLIC;

COMMENT ON SCHEMA ccopt IS
    'CC-Optimizer: operators on batches of rows (docs/plan.md)';
COMMENT ON FUNCTION ccopt_stats() IS
    'counts of each node, of this session or of the server';
COMMENT ON FUNCTION ccopt_stats_reset() IS
    'sets all counts of ccopt_stats to 0';
COMMENT ON FUNCTION ccopt_shapes() IS
    'plan shapes of this database with the times of both plans';
COMMENT ON FUNCTION ccopt_shapes_reset() IS
    'forgets the plan shapes of this database; returns their number';
COMMENT ON FUNCTION ccopt_calibrate(double precision) IS
    'measures cost constants on this machine; argument: allowed spread between two measurements, as a fraction';
COMMENT ON FUNCTION ccopt_constants() IS
    'cost constants in force in this session';
COMMENT ON VIEW ccopt_stats IS
    'counts of each node, of this session or of the server';
COMMENT ON COLUMN ccopt_stats.node IS
    'node type: BatchScan, BatchAgg, BatchHashJoin, Buffer';
COMMENT ON COLUMN ccopt_stats.uses IS
    'nodes that ran to their end';
COMMENT ON COLUMN ccopt_stats.batches IS
    'batches produced';
COMMENT ON COLUMN ccopt_stats.rows_in IS
    'rows read';
COMMENT ON COLUMN ccopt_stats.rows_out IS
    'rows produced';
COMMENT ON COLUMN ccopt_stats.odd_rows IS
    'fallback rows: rows with a value that a batch cannot hold';
COMMENT ON COLUMN ccopt_stats.fallbacks IS
    'times a node gave up batches at run time';
COMMENT ON COLUMN ccopt_stats.spills IS
    'times a node wrote temporary files';
COMMENT ON COLUMN ccopt_stats.cache_hits IS
    'pages times columns that came from the column cache';
COMMENT ON COLUMN ccopt_stats.cache_fills IS
    'pages times columns that were put into the column cache';
COMMENT ON COLUMN ccopt_stats.scope IS
    'server: counts of all sessions; session: counts of this session';
COMMENT ON FUNCTION ccopt_cache() IS
    'limit, contents and counts of the column cache of the server';
COMMENT ON VIEW ccopt_cache IS
    'limit, contents and counts of the column cache of the server';
COMMENT ON COLUMN ccopt_cache.state IS
    'on, or why the cache is not used in this session';
COMMENT ON COLUMN ccopt_cache.limit_bytes IS
    'shared memory of the cache, bytes: all that it can use';
COMMENT ON COLUMN ccopt_cache.used_bytes IS
    'bytes of that with contents';
COMMENT ON COLUMN ccopt_cache.chunks IS
    'chunks in the cache: a column of 16 pages each';
COMMENT ON COLUMN ccopt_cache.hits IS
    'pages times columns that came from the cache';
COMMENT ON COLUMN ccopt_cache.misses IS
    'pages times columns that were looked for and had to be read from the table';
COMMENT ON COLUMN ccopt_cache.fills IS
    'pages times columns that were put into the cache';
COMMENT ON COLUMN ccopt_cache.stale_chunks IS
    'chunks removed since their pages had changed';
COMMENT ON COLUMN ccopt_cache.evicted_chunks IS
    'chunks removed to make room for others';
COMMENT ON COLUMN ccopt_cache.refused_fills IS
    'times a scan stopped filling since all that the cache has is in use';
COMMENT ON COLUMN ccopt_cache.pinned_segments IS
    'segments (256 kB) that running scans read or fill';
COMMENT ON VIEW ccopt_shapes IS
    'plan shapes of this database with the times of both plans';
COMMENT ON COLUMN ccopt_shapes.shape IS
    'id of the plan shape, hexadecimal';
COMMENT ON COLUMN ccopt_shapes.statement_id IS
    'hash of the normalised statement text, hexadecimal, as hardmeter queries prints it';
COMMENT ON COLUMN ccopt_shapes.query_id IS
    'query identifier of PostgreSQL, null without compute_query_id';
COMMENT ON COLUMN ccopt_shapes.state IS
    'ours: the plan with batch nodes is used; stock: pinned to the plan of PostgreSQL';
COMMENT ON COLUMN ccopt_shapes.ratio IS
    'time of the plan with batch nodes divided by time of the stock plan';
COMMENT ON COLUMN ccopt_shapes.pairs IS
    'trials that the ratio is computed from';
COMMENT ON COLUMN ccopt_shapes.runs IS
    'complete executions of the plan with batch nodes';
COMMENT ON COLUMN ccopt_shapes.mean_ms IS
    'geometric mean of its latest executions, milliseconds of processor time, of wall time with workers';
COMMENT ON COLUMN ccopt_shapes.stock_runs IS
    'complete executions of the stock plan';
COMMENT ON COLUMN ccopt_shapes.stock_mean_ms IS
    'geometric mean of the latest executions of the stock plan, with its planning, milliseconds';
COMMENT ON COLUMN ccopt_shapes.stock_predicted_ms IS
    'time of the stock plan as predicted by its cost, milliseconds';
COMMENT ON COLUMN ccopt_shapes.query IS
    'beginning of the statement text';
COMMENT ON COLUMN ccopt_shapes.scope IS
    'server: shapes of all sessions; session: shapes of this session';
COMMENT ON TABLE calibration IS
    'results of ccopt_calibrate() by processor, server version and library version';
COMMENT ON COLUMN calibration.processor IS
    'processor model';
COMMENT ON COLUMN calibration.server IS
    'version of the server';
COMMENT ON COLUMN calibration.library IS
    'version of the library';
COMMENT ON COLUMN calibration.name IS
    'name of the constant';
COMMENT ON COLUMN calibration.value IS
    'measured value; ccopt_constants has its unit';
COMMENT ON COLUMN calibration.measured_at IS
    'time of the measurement';
COMMENT ON VIEW ccopt_constants IS
    'cost constants in force in this session';
COMMENT ON COLUMN ccopt_constants.name IS
    'name of the constant';
COMMENT ON COLUMN ccopt_constants.value IS
    'value in force';
COMMENT ON COLUMN ccopt_constants.unit IS
    'unit of value and built_in';
COMMENT ON COLUMN ccopt_constants.built_in IS
    'value without calibration';
COMMENT ON COLUMN ccopt_constants.source IS
    'measured, or built in';
COMMENT ON COLUMN ccopt_constants.meaning IS
    'operation that the constant is the cost of';
