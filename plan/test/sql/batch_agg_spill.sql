-- BatchAgg with more groups than memory: rows are spilled, and each group is returned once at any depth.
-- same() is lib/batch_agg_same.sql's.
SET client_min_messages = warning;
CREATE SCHEMA batch_agg_spill;
SET search_path = batch_agg_spill;

\getenv inputs PG_ABS_SRCDIR
\set helpers :inputs '/lib/batch_agg_same.sql'
\set ECHO none
\i :helpers
\set ECHO all

CREATE TABLE many AS SELECT i, (i::int8 * 7919 % 100000)::int AS k, (i % 1000 / 8.0)::numeric(8,3) AS d,
    'a key of some length ' || i * 31 % 50000 AS t, CASE WHEN i % 100 = 0 THEN NULL ELSE i % 30000 END AS n
  FROM generate_series(1, 150000) i;
ANALYZE many;
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT same('SELECT k, count(*), sum(d), avg(d), min(i), max(i), count(n) FROM many GROUP BY k');
SELECT same('SELECT t, count(*), sum(d), avg(d * 2) FROM many GROUP BY t');
SELECT same('SELECT n, k % 7, sum(d) FROM many GROUP BY n, k % 7');
SELECT same('SELECT t, n, count(*), sum(d) FILTER (WHERE d > 60), sum(CASE WHEN n > 100 THEN d ELSE 0 END) FROM many GROUP BY t, n');
SELECT same('SELECT count(*), sum(s), max(c) FROM (SELECT k, sum(d) AS s, count(*) AS c FROM many GROUP BY k) q');
-- a row whose group has exact state, spilled like others
INSERT INTO many SELECT i, i % 9000, 'NaN', 'nan', i FROM generate_series(1, 20000) i;
SELECT same('SELECT k, count(*), sum(d), avg(d), min(d), max(d) FROM many GROUP BY k');
SELECT same('SELECT d, k, count(*), max(d) FROM many GROUP BY d, k');
-- EXPLAIN ANALYZE reports the spill
CREATE FUNCTION spilled(query text) RETURNS TABLE (line text) LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
  EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
  plan := plan -> 0 -> 'Plan';
  RETURN QUERY SELECT format('%s, groups %s, passes > 1: %s, rows put off: %s', plan ->> 'Custom Plan Provider', plan ->> 'Groups',
                             (plan ->> 'Passes')::int > 1, (plan ->> 'Rows Put Off')::int > 0);
END $$;
SET ccopt.force = on;
SELECT * FROM spilled('SELECT k, count(*) FROM many GROUP BY k');
SET work_mem = '64MB';
SELECT * FROM spilled('SELECT k, count(*) FROM many GROUP BY k');
RESET ccopt.force;
-- more groups than memory by estimate: not offered
SET work_mem = '64kB';
SET ccopt.require = 'BatchAgg';
SELECT k, count(*) FROM many GROUP BY k;
RESET ccopt.require;
RESET work_mem;
-- among plans of equal cost (within the planner's fuzz factor), not the one that always sorts
EXPLAIN (COSTS off) SELECT t, sum(d) FROM many WHERE n < 30 GROUP BY t ORDER BY t;
SET ccopt.enable_batch_agg = off;
EXPLAIN (COSTS off) SELECT t, sum(d) FROM many WHERE n < 30 GROUP BY t ORDER BY t;
