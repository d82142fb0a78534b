\echo Use "CREATE EXTENSION ccopt" to load this file. \quit

-- How often each node ran, and on how much; docs/plan.md explains the columns.
CREATE FUNCTION ccopt_stats(
    OUT node text, OUT uses bigint, OUT batches bigint, OUT rows_in bigint, OUT rows_out bigint,
    OUT odd_rows bigint, OUT fallbacks bigint, OUT spills bigint, OUT scope text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW ccopt_stats AS SELECT * FROM ccopt_stats();
GRANT SELECT ON ccopt_stats TO PUBLIC;

-- Of the whole server, where the library was preloaded: not for everybody.
CREATE FUNCTION ccopt_stats_reset() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
REVOKE ALL ON FUNCTION ccopt_stats_reset() FROM PUBLIC;

-- What statements took whose plans have nodes of ours, beside PostgreSQL's own plan: docs/plan.md.
-- statement_id: as `hardmeter queries` and `hardmeter split` print it; query_id: pg_stat_statements'.
CREATE FUNCTION ccopt_shapes(
    OUT shape text, OUT statement_id text, OUT query_id bigint, OUT state text, OUT ratio double precision, OUT pairs integer,
    OUT runs bigint, OUT ms double precision, OUT stock_runs bigint, OUT stock_ms double precision,
    OUT stock_predicted_ms double precision, OUT query text, OUT scope text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'ccopt_shapes_list' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW ccopt_shapes AS SELECT * FROM ccopt_shapes();
GRANT SELECT ON ccopt_shapes TO PUBLIC;

-- Forgets all that is known of this database's; returns how many there were.
CREATE FUNCTION ccopt_shapes_reset() RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
REVOKE ALL ON FUNCTION ccopt_shapes_reset() FROM PUBLIC;

-- What ccopt_calibrate() measured, by machine and server: a copy of the database elsewhere does not take it over.
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

-- Measures this machine, some five seconds; makes and drops tables, so it is not for everybody.
-- max_spread: how much the time of one query may differ between two measurements of it, as a share.
CREATE FUNCTION ccopt_calibrate(max_spread double precision DEFAULT 0.05) RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION ccopt_calibrate(double precision) FROM PUBLIC;

-- The constants that planning goes by in this session, and where each comes from.
CREATE FUNCTION ccopt_constants(
    OUT name text, OUT value double precision, OUT unit text, OUT built_in double precision,
    OUT source text, OUT meaning text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW ccopt_constants AS SELECT * FROM ccopt_constants();
GRANT SELECT ON ccopt_constants TO PUBLIC;
GRANT USAGE ON SCHEMA ccopt TO PUBLIC;
