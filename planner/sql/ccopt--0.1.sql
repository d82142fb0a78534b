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
