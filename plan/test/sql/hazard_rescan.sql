-- Starting again: with other parameters, in the middle of a batch, many times. expected/ is a stock server's output.
SET client_min_messages = warning;
CREATE SCHEMA hazard_rescan;
SET search_path = hazard_rescan;
CREATE TABLE h (id int, k int, v numeric(10,2), t text);
INSERT INTO h SELECT i, i % 50, (i * 7 % 1000) / 4.0, 't' || i % 3 FROM generate_series(1, 4000) i;
INSERT INTO h VALUES (NULL, NULL, NULL, NULL), (4001, NULL, 'NaN', NULL);
CREATE TABLE o (k int, low numeric, t text);
INSERT INTO o SELECT i, i * 4, CASE WHEN i % 4 = 0 THEN NULL ELSE 't' || i % 4 END FROM generate_series(1, 30) i;
INSERT INTO o VALUES (NULL, NULL, 't1'), (7, 'NaN', 't1'), (7, NULL, NULL);
ANALYZE h, o;
SET ccopt.force = on;
SET ccopt.buffer = force;

-- correlated: the parameter is a constant of the qual, of the aggregate's argument, of the grouping, is NULL, is a type
-- wider than the column
SELECT o.k, (SELECT count(*) FROM h WHERE h.k = o.k) FROM o ORDER BY 1, 2;
SELECT o.k, o.low, (SELECT sum(v) FROM h WHERE h.v < o.low AND h.id < 900) FROM o ORDER BY 1, 2, 3;
SELECT o.k, (SELECT max(v + o.low) FROM h WHERE h.k = o.k) FROM o WHERE o.k < 6 ORDER BY 1, 2;
SELECT o.k, (SELECT string_agg(q.t || q.n, ',' ORDER BY q.t) FROM (SELECT t, count(*) AS n FROM h WHERE h.k > o.k GROUP BY t) q)
  FROM o ORDER BY 1, 2;
SELECT o.k, (SELECT count(*) FROM h WHERE h.t = o.t), (SELECT count(*) FROM h WHERE h.t LIKE o.t || '%') FROM o ORDER BY 1, 2, 3;
SELECT o.k, (SELECT count(*) FROM h WHERE h.k IN (o.k, o.k + 1, NULL)) FROM o WHERE o.k < 9 ORDER BY 1, 2;
-- read in part, then from the beginning
SELECT count(*) FROM o WHERE EXISTS (SELECT 1 FROM h WHERE h.k = o.k AND h.v > o.low);
SELECT count(*) FROM o WHERE NOT EXISTS (SELECT 1 FROM h WHERE h.k = o.k AND h.v > o.low);
SELECT o.k, (SELECT h.id FROM h WHERE h.k > o.k LIMIT 1) FROM o ORDER BY 1, 2;
SELECT o.k, o.k IN (SELECT h.k FROM h WHERE h.v < o.low) FROM o ORDER BY 1, 2;
SELECT o.k, o.low = ANY (SELECT h.v FROM h WHERE h.k = o.k) FROM o ORDER BY 1, 2;

-- LATERAL, with joins and aggregates below
SELECT o.k, s.* FROM o, LATERAL (SELECT count(*) AS n, sum(v) AS s FROM h WHERE h.k = o.k AND v <> 'NaN') s ORDER BY 1, 2, 3;
SELECT o.k, s.* FROM o LEFT JOIN LATERAL (SELECT a.id FROM h a JOIN h b ON a.id = b.id WHERE a.k = o.k ORDER BY a.id LIMIT 2) s ON true
  WHERE o.k < 5 ORDER BY 1, 2;
SELECT o.k, count(s.t) FROM o LEFT JOIN LATERAL (SELECT h.t, sum(h.v) FROM h WHERE h.k BETWEEN o.k AND o.k + 2 GROUP BY h.t) s ON true
  GROUP BY o.k ORDER BY 1;

-- the inner side of a nested loop, with and without Materialize and Memoize
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*), sum(h.v) FILTER (WHERE h.v <> 'NaN') FROM o JOIN h ON h.k = o.k;
SELECT count(*), count(h.id) FROM o LEFT JOIN h ON h.k = o.k AND h.v < o.low;
SET enable_material = off;
SELECT count(*), sum(h.v) FILTER (WHERE h.v <> 'NaN') FROM o JOIN h ON h.k = o.k;
SELECT count(*) FROM o WHERE k IN (SELECT k FROM h WHERE v > 240);
SELECT count(*) FROM o a JOIN o b ON a.k = b.k JOIN (SELECT k, max(v) AS m FROM h GROUP BY k) s ON s.k = a.k;
RESET enable_material;
CREATE INDEX ON h (k);
ANALYZE h;
SELECT count(*), sum(h.id) FROM o JOIN h ON h.k = o.k;
SELECT o.k, s.n FROM o, LATERAL (SELECT count(*) AS n FROM h WHERE h.k = o.k) s ORDER BY 1, 2;
SELECT count(*) FROM o a JOIN o b ON a.k = b.k JOIN h ON h.k = b.k AND h.v > a.low;
RESET enable_hashjoin;
RESET enable_mergejoin;
-- the inner side of a merge join is marked and restored
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT count(*), sum(a.id) FROM h a JOIN h b ON a.k = b.k AND a.id < 200;
SELECT count(*) FROM (SELECT k, id FROM h ORDER BY k) a JOIN (SELECT k, v FROM h ORDER BY k) b ON a.k = b.k WHERE a.id < 100;
SELECT count(*) FROM h a FULL JOIN o ON a.k = o.k;
RESET enable_hashjoin;
RESET enable_nestloop;

-- recursion: the step is started again for each level, with another work table
WITH RECURSIVE r(k, depth) AS (
  SELECT 1, 0 UNION SELECT h.k, r.depth + 1 FROM r JOIN h ON h.id = r.k * 3 WHERE r.depth < 8)
SELECT depth, count(*), sum(k) FROM r GROUP BY depth ORDER BY depth;
WITH RECURSIVE r(n) AS (
  SELECT 1 UNION ALL SELECT n + (SELECT count(*)::int FROM h WHERE h.k = r.n % 50) FROM r WHERE n < 400)
SELECT * FROM r ORDER BY n LIMIT 6;
-- init plans and hashed subplans
SELECT count(*) FROM h WHERE v > (SELECT avg(v) FROM h WHERE v <> 'NaN');
SELECT count(*) FROM h WHERE k NOT IN (SELECT k FROM o WHERE k IS NOT NULL);
SELECT count(*) FROM h WHERE k NOT IN (SELECT k FROM o);
SELECT o.k, (SELECT count(*) FROM h WHERE v > (SELECT avg(v) FROM h b WHERE b.k = o.k AND v <> 'NaN')) FROM o WHERE k < 5 ORDER BY 1, 2;
-- a function called for each row, whose plan is kept
CREATE FUNCTION count_of(int) RETURNS bigint STABLE LANGUAGE plpgsql AS
$$ BEGIN RETURN (SELECT count(*) FROM h WHERE k = $1); END $$;
SELECT k, count_of(k) FROM o ORDER BY 1, 2;
SELECT sum(count_of(k)) FROM h WHERE id < 300;
DROP SCHEMA hazard_rescan CASCADE;
