-- AdaptiveJoin over look-ups that ask more of both rows than equal keys, as TPC-H's Q21 does (l2.suppkey <> l1.suppkey):
-- with a hash table the condition is a filter of the join, and the rows are those of look-ups.
\set ON_ERROR_STOP 0
SET client_min_messages = warning;
CREATE SCHEMA adaptive_filter;
SET search_path = adaptive_filter, ccopt, public;
-- Orders of one, two and three suppliers, five lines each; NULL as key and as compared value; duplicate lines.
CREATE TABLE item(id int, ord int, supp int, small int2, big int8, amount numeric(8,2), day date, note text, code char(6),
  share float8, good bool);
INSERT INTO item SELECT i, CASE WHEN i % 37 = 0 THEN NULL ELSE i % 600 END,
  CASE WHEN i % 11 = 0 THEN NULL ELSE (i / 600) % (1 + i % 3) END, i % 5, i % 7, CASE WHEN i % 17 > 0 THEN i % 9 / 4.0 END,
  date '2020-01-01' + i / 300 % 4, CASE WHEN i % 19 > 0 THEN 'note ' || i / 900 % 3 END, 'c' || i / 700 % 3, i / 600 % 3, i % 4 < 3
  FROM generate_series(1, 3000) i;
INSERT INTO item SELECT * FROM item WHERE id % 10 = 0;
CREATE INDEX item_ord ON item(ord);
CREATE TABLE nothing(ord int, supp int);
CREATE INDEX nothing_ord ON nothing(ord);
CREATE TABLE few(k int);
INSERT INTO few VALUES (0), (1), (1), (2), (NULL);
ANALYZE item, nothing, few;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off; SET enable_memoize = off;
SET enable_material = off;
SET ccopt.enable_batch_scan = off; SET ccopt.enable_batch_agg = off; SET ccopt.enable_batch_join = off;
SET ccopt.buffer = off; SET max_parallel_workers_per_gather = 0;

-- The rows of a query by core's look-ups, by ccopt's, and by hash tables built at the second row; whether a table
-- was built, and whether it had a filter.
CREATE FUNCTION same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE differences bigint; answers bigint; plan text;
BEGIN
  SET ccopt.force = off;
  SET ccopt.enable_adaptive_join = off;
  EXECUTE 'CREATE TEMP TABLE expected AS ' || query;
  SET ccopt.enable_adaptive_join = on;
  EXECUTE 'CREATE TEMP TABLE looked_up AS ' || query;
  SET ccopt.force = on;
  EXECUTE 'CREATE TEMP TABLE hashed AS ' || query;
  EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
  SET ccopt.force = off;
  SELECT count(*) INTO differences FROM (
    (TABLE expected EXCEPT ALL TABLE hashed) UNION ALL (TABLE hashed EXCEPT ALL TABLE expected) UNION ALL
    (TABLE expected EXCEPT ALL TABLE looked_up) UNION ALL (TABLE looked_up EXCEPT ALL TABLE expected)) d;
  SELECT count(*) INTO answers FROM expected;
  DROP TABLE expected, hashed, looked_up;
  RETURN format('%s rows, %s differences, %s', answers, differences,
                CASE WHEN plan NOT LIKE '%"Hash Table Memory"%' THEN 'looked up'
                     WHEN plan LIKE '%"Hash Filter"%' THEN 'hashed, filtered' ELSE 'hashed' END);
END $$;

-- The plan, and answers that can be counted: of 600 orders, those with i % 3 = 0 have one supplier.
EXPLAIN (COSTS OFF) SELECT a.id FROM item a WHERE EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp AND b.good);
SET ccopt.force = on;
SELECT count(*) FROM item a WHERE ord % 3 = 0 AND EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp);
SELECT count(*) = (SELECT count(*) FROM item WHERE ord % 3 = 0) AS all_of_them
  FROM item a WHERE ord % 3 = 0 AND NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp);
SET ccopt.force = off;
-- kinds of joins; NULL as key of either side, and as compared value
SELECT same('SELECT a.id FROM item a WHERE EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp)');
SELECT same('SELECT a.id FROM item a WHERE NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp)');
SELECT same('SELECT a.id FROM item a WHERE EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp)
  AND NOT EXISTS (SELECT FROM item c WHERE c.ord = a.ord AND c.supp <> a.supp AND c.small = 1) AND a.good');
SELECT same('SELECT a.id FROM item a WHERE a.supp IS NULL AND NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp)');
SELECT same('SELECT a.id FROM item a WHERE a.ord IS NULL AND NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp)');
SELECT same('SELECT a.id, b.id AS other FROM item a JOIN item b ON b.ord = a.ord AND b.id < a.id');
SELECT same('SELECT a.id, b.id AS other, b.note FROM item a LEFT JOIN item b ON b.ord = a.ord AND b.supp > a.supp');
SELECT same('SELECT a.id, b.id AS other FROM item a LEFT JOIN item b ON b.ord = a.ord AND b.supp > a.supp WHERE b.id IS NULL OR b.good');
-- several conditions, OR, NOT; with conditions on the inner row alone
SELECT same('SELECT a.id FROM item a WHERE NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp AND b.id <> a.id AND b.day = date ''2020-01-02'')');
SELECT same('SELECT a.id FROM item a WHERE NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND (b.supp <> a.supp OR b.supp IS NULL))');
SELECT same('SELECT a.id FROM item a WHERE EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND NOT (b.supp = a.supp AND b.small > a.small))');
-- types: of unequal width, numeric, date, text, padded char
SELECT same('SELECT a.id FROM item a WHERE EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.big < a.small)');
SELECT same('SELECT a.id FROM item a WHERE NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.amount > a.amount)');
SELECT same('SELECT a.id FROM item a WHERE NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.day < a.day)');
SELECT same('SELECT a.id FROM item a WHERE NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.note <> a.note)');
SELECT same('SELECT a.id FROM item a WHERE NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.code = a.code AND b.id > a.id)');
-- a condition within the index's own
CREATE INDEX item_ord_id ON item(ord, id);
SELECT same('SELECT a.id FROM item a WHERE NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.id > a.id AND b.supp <> a.supp)');
DROP INDEX item_ord_id;
-- an empty table, one whose rows are all filtered out, an empty outer side
SET enable_seqscan = off;
SELECT same('SELECT a.id FROM item a WHERE EXISTS (SELECT FROM nothing b WHERE b.ord = a.ord AND b.supp <> a.supp)');
SELECT same('SELECT a.id FROM item a WHERE NOT EXISTS (SELECT FROM nothing b WHERE b.ord = a.ord AND b.supp <> a.supp)');
RESET enable_seqscan;
SELECT same('SELECT a.id FROM item a WHERE NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp AND b.small > 9)');
SELECT same('SELECT n.ord FROM nothing n JOIN item b ON b.ord = n.ord AND b.supp <> n.supp');
-- rescanned with other outer rows: the table is kept; a parameter within the look-up rules it out
SELECT same('SELECT f.k, s.n FROM few f, LATERAL (SELECT count(*) AS n FROM item a WHERE a.id > f.k * 1000
  AND NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp) OFFSET 0) s');
SELECT same('SELECT f.k, s.n FROM few f, LATERAL (SELECT count(*) AS n FROM item a WHERE a.id > 2500
  AND NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp AND b.small <> f.k) OFFSET 0) s');
-- too large for the memory: look-ups continue
SET work_mem = '64kB'; SET hash_mem_multiplier = 1;
SELECT same('SELECT a.id FROM item a WHERE NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp)');
RESET work_mem; RESET hash_mem_multiplier;
-- An expression that can fail must be evaluated only for rows up to the first match: core runs the join. Of each
-- order with k = 1 the lines after the first match would be a division by zero.
SELECT same('SELECT a.id FROM item a WHERE EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp + 1)');
SELECT same('SELECT a.id FROM item a WHERE NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.share <> a.share)');
CREATE TABLE danger AS SELECT k, v, repeat('x', 100) AS filler FROM generate_series(1, 2000) k, generate_series(1, 3) v;
CREATE INDEX danger_k ON danger(k, v);
ANALYZE danger;
SELECT same('SELECT f.k FROM few f WHERE EXISTS (SELECT FROM danger d WHERE d.k = f.k AND 10 / (2 - d.v) > f.k)');
-- parameters of the statement: a cached plan, with other values and other rows
SET ccopt.force = on; SET plan_cache_mode = force_generic_plan;
PREPARE kept(int, int) AS SELECT count(*), sum(a.id) FROM item a
  WHERE a.id > $1 AND NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp AND b.small <> $2);
SET ccopt.enable_adaptive_join = off;
PREPARE core(int, int) AS SELECT count(*), sum(a.id) FROM item a
  WHERE a.id > $1 AND NOT EXISTS (SELECT FROM item b WHERE b.ord = a.ord AND b.supp <> a.supp AND b.small <> $2);
EXECUTE core(0, 1);
EXECUTE core(1000, NULL);
SET ccopt.enable_adaptive_join = on;
EXECUTE kept(0, 1);
EXECUTE kept(1000, NULL);
BEGIN;
DELETE FROM item WHERE supp = 1;
EXECUTE kept(0, 1);
EXECUTE core(0, 1);
ROLLBACK;
EXECUTE kept(0, 1);
DEALLOCATE ALL;

-- Look-ups of hundreds of rows, which are read ahead: some dead, some moved within their page, some to another key,
-- and a row may be deleted between reading its index entry and fetching it. The table has more pages than ccopt
-- looks up without prefetching.
RESET plan_cache_mode;
SET ccopt.force = off; SET enable_seqscan = off;
CREATE TABLE busy AS SELECT i % 7 AS k, i AS v, repeat('x', 200) AS filler FROM generate_series(1, 40000) i;
CREATE INDEX busy_k ON busy(k);
UPDATE busy SET filler = 'short' WHERE v % 5 = 0;
UPDATE busy SET filler = 'shorter' WHERE v % 10 = 0;
UPDATE busy SET k = (k + 1) % 7 WHERE v % 11 = 0;
DELETE FROM busy WHERE v % 13 = 0;
ANALYZE busy;
SELECT pg_relation_size('busy') / 8192 >= 1024 AS large;
SELECT same('SELECT f.k, b.v, b.filler FROM few f JOIN busy b ON b.k = f.k AND b.v > f.k');
SELECT same('SELECT f.k FROM few f WHERE EXISTS (SELECT FROM busy b WHERE b.k = f.k AND b.v > 39970 AND b.v <> f.k)');
SELECT same('SELECT f.k FROM few f WHERE NOT EXISTS (SELECT FROM busy b WHERE b.k = f.k AND b.filler = ''none'' AND b.v <> f.k)');
SELECT same('SELECT f.k, b.v FROM few f LEFT JOIN busy b ON b.k = f.k AND b.v % 3 = 0');
SELECT public.plan_lines('SELECT f.k FROM few f JOIN busy b ON b.k = f.k AND b.v > f.k', 'analyze, costs off, timing off, summary off');
BEGIN;
DECLARE ours NO SCROLL CURSOR FOR SELECT f.k, b.v FROM few f JOIN busy b ON b.k = f.k;
SET LOCAL ccopt.enable_adaptive_join = off;
DECLARE core NO SCROLL CURSOR FOR SELECT f.k, b.v FROM few f JOIN busy b ON b.k = f.k;
SET LOCAL ccopt.enable_adaptive_join = on;
MOVE 20 FROM ours; MOVE 20 FROM core;
DELETE FROM busy WHERE v > 100;
SELECT count(*) FROM few f JOIN busy b ON b.k = f.k;
FETCH 2 FROM ours; FETCH 2 FROM core;
MOVE 6000 FROM ours; MOVE 6000 FROM core;
FETCH 2 FROM ours; FETCH 2 FROM core;
ROLLBACK;
RESET enable_seqscan;

-- One key, 400 million pairs of which none passes, and a statement that is cancelled among them.
SET ccopt.force = on;
CREATE TABLE crowd AS SELECT 1 AS k, i, -i AS j FROM generate_series(1, 20000) i;
CREATE INDEX crowd_k ON crowd(k);
ANALYZE crowd;
SET statement_timeout = '50ms';
SELECT count(*) FROM crowd a WHERE NOT EXISTS (SELECT FROM crowd b WHERE b.k = a.k AND b.j > a.i);
RESET statement_timeout;

DROP SCHEMA adaptive_filter CASCADE;
