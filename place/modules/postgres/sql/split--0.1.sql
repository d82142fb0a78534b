\echo Use "CREATE EXTENSION split" to load this file. \quit

CREATE FUNCTION split_kinds(
  OUT code bigint, OUT key text, OUT note text, OUT count bigint, OUT cycles double precision, OUT class text, OUT origin text,
  OUT statement_id text)
RETURNS SETOF record AS 'MODULE_PATHNAME', 'split_kinds' LANGUAGE C VOLATILE STRICT;

CREATE FUNCTION split_status(OUT name text, OUT value text)
RETURNS SETOF record AS 'MODULE_PATHNAME', 'split_status' LANGUAGE C VOLATILE STRICT;

CREATE VIEW split_kinds AS SELECT * FROM split_kinds() WHERE count > 0;
CREATE VIEW split_status AS SELECT * FROM split_status();

REVOKE ALL ON split_kinds, split_status FROM PUBLIC;
REVOKE ALL ON FUNCTION split_kinds(), split_status() FROM PUBLIC;
GRANT SELECT ON split_kinds, split_status TO pg_monitor;
GRANT EXECUTE ON FUNCTION split_kinds(), split_status() TO pg_monitor;

COMMENT ON FUNCTION split_kinds() IS
    'statement kinds with their counts and cycles';
COMMENT ON FUNCTION split_status() IS
    'counters of the measurement, and its problem if there is one';
COMMENT ON VIEW split_kinds IS
    'statement kinds that ran at least once';
COMMENT ON COLUMN split_kinds.code IS
    'number of the kind in the segment of this server';
COMMENT ON COLUMN split_kinds.key IS
    'key of the kind, as libsplit stores it';
COMMENT ON COLUMN split_kinds.note IS
    'beginning of the normalised statement';
COMMENT ON COLUMN split_kinds.count IS
    'executions';
COMMENT ON COLUMN split_kinds.cycles IS
    'mean processor cycles of an execution';
COMMENT ON COLUMN split_kinds.class IS
    'short, polluter, sensitive, neutral, unknown';
COMMENT ON COLUMN split_kinds.origin IS
    'page or client that sent the statement';
COMMENT ON VIEW split_status IS
    'counters of the measurement, and its problem if there is one';
COMMENT ON COLUMN split_status.name IS
    'name of the counter or setting';
COMMENT ON COLUMN split_status.value IS
    'its value';
