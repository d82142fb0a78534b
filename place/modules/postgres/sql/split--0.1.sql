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
