-- Reading ahead: rows that the client does not request must not be computed, because they can fail. Rows 1 to 3 are
-- harmless, a later one divides by zero; a client that reads only the first rows gets no error. expected/ is what a
-- stock server says.
SET client_min_messages = warning;
CREATE SCHEMA hazard_read_ahead;
SET search_path = hazard_read_ahead;
CREATE TABLE h (id int, x int, k int, v numeric(10,2));
INSERT INTO h SELECT i, CASE WHEN i = 6 THEN 0 ELSE i END, i % 5, i FROM generate_series(1, 3000) i;
CREATE TABLE u (k int, name text);
INSERT INTO u SELECT i, 'name ' || i FROM generate_series(0, 4) i;
ANALYZE h, u;
SET ccopt.force = on;
SET ccopt.buffer = force;
SET max_parallel_workers_per_gather = 0;

-- LIMIT
SELECT 100 / x AS y FROM h LIMIT 3;
SELECT id FROM h WHERE 100 / x > 0 LIMIT 3;
SELECT * FROM (SELECT id, 100 / x AS y FROM h OFFSET 0) s LIMIT 3;
SELECT * FROM (SELECT id, 100 / x AS y FROM h OFFSET 0) s WHERE y > 0 LIMIT 3;
SELECT s.id, s.y, u.name FROM (SELECT id, k, 100 / x AS y FROM h OFFSET 0) s JOIN u USING (k) LIMIT 3;
SELECT s.id, s.y, u.name FROM (SELECT id, k, 100 / x AS y FROM h OFFSET 0) s LEFT JOIN u USING (k) LIMIT 3;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT s.id, s.y, u.name FROM (SELECT id, k, 100 / x AS y FROM h OFFSET 0) s JOIN u USING (k) LIMIT 3;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT 100 / x AS y FROM h WHERE id > 1 OFFSET 1 LIMIT 2;
SELECT 100 / x AS y FROM h LIMIT (SELECT min(k) + 2 FROM u);
-- requesting these rows raises the error
SELECT * FROM (SELECT id, 100 / x AS y FROM h OFFSET 0) s LIMIT 7;
SELECT sum(100 / x) FROM h;

-- EXISTS, IN, ANY, scalar subqueries with LIMIT
SELECT EXISTS (SELECT 100 / x FROM h WHERE 100 / x > 10);
SELECT EXISTS (SELECT 1 FROM (SELECT 100 / x AS y FROM h OFFSET 0) s WHERE y = 50);
SELECT name FROM u WHERE EXISTS (SELECT 1 FROM h WHERE h.k = u.k AND 100 / h.x > 10 AND h.id < 6) ORDER BY name;
SELECT (SELECT 100 / x FROM h LIMIT 1);
SELECT 50 IN (SELECT 100 / x FROM h LIMIT 4);
SELECT 100 = ANY (SELECT 100 / x FROM h);
SELECT k, (SELECT y FROM (SELECT 100 / x AS y, h.k FROM h OFFSET 0) s WHERE s.k = u.k LIMIT 1) FROM u WHERE k BETWEEN 1 AND 3 ORDER BY k;

-- a WITH query that is read in part
WITH w AS MATERIALIZED (SELECT id, 100 / x AS y FROM h) SELECT * FROM w LIMIT 3;
WITH w AS MATERIALIZED (SELECT id, k, 100 / x AS y FROM h) SELECT w.id, u.name FROM w JOIN u USING (k) LIMIT 2;
WITH w AS MATERIALIZED (SELECT id, 100 / x AS y FROM h) SELECT (SELECT y FROM w LIMIT 1), (SELECT y FROM w OFFSET 2 LIMIT 1);

-- cursors, sets, ordered prefixes
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id, 100 / x AS y FROM h;
FETCH 3 FROM c;
DECLARE d NO SCROLL CURSOR FOR SELECT s.y, u.name FROM (SELECT k, 100 / x AS y FROM h OFFSET 0) s JOIN u USING (k);
FETCH 3 FROM d;
COMMIT;
SELECT 100 / x AS y FROM h WHERE id < 3 UNION ALL SELECT y FROM (SELECT 100 / x AS y FROM h OFFSET 0) s LIMIT 4;
SELECT x, generate_series(1, 2) FROM (SELECT 100 / x AS x FROM h OFFSET 0) s LIMIT 3;
CREATE INDEX ON h (id);
ANALYZE h;
SET enable_seqscan = off;
SELECT 100 / x AS y FROM h WHERE id > 0 ORDER BY id LIMIT 3;
SELECT k, y FROM (SELECT k, 100 / x AS y FROM h WHERE id > 0 ORDER BY id OFFSET 0) s JOIN u USING (k) LIMIT 3;
SELECT max(100 / x) FROM (SELECT x FROM h ORDER BY id LIMIT 4) s;
RESET enable_seqscan;

-- functions of SQL and plpgsql that read a first row
CREATE FUNCTION first_y() RETURNS int LANGUAGE sql AS 'SELECT 100 / x FROM h';
SELECT first_y();
CREATE FUNCTION loop_y() RETURNS int LANGUAGE plpgsql AS $$
DECLARE y int;
BEGIN
  SELECT 100 / x INTO y FROM h;
  RETURN y;
END $$;
SELECT loop_y();
-- operands in the order they are written: CASE and AND guard
SELECT count(*) FROM h WHERE CASE WHEN x <> 0 THEN 100 / x > 1 ELSE false END;
SELECT sum(CASE WHEN x <> 0 THEN 100 / x END), sum(100 / x) FILTER (WHERE x <> 0) FROM h;
SELECT count(*) FROM h WHERE x <> 0 AND 100 / x > 1;
SELECT k, sum(100 / nullif(x, 0)) FROM h GROUP BY k HAVING sum(nullif(x, 0)) <> 0 ORDER BY k;
DROP SCHEMA hazard_read_ahead CASCADE;
