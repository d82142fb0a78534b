-- Everything that can stand in FROM. expected/ is a stock server's output.
SET client_min_messages = warning;
CREATE SCHEMA hazard_relations;
SET search_path = hazard_relations;
SET ccopt.force = on;
SET ccopt.buffer = force;

-- partitions, of other columns' order, pruned when planned and when run
CREATE TABLE p (k int, d date, v numeric(10,2), t text) PARTITION BY RANGE (d);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM ('1995-01-01') TO ('1996-01-01');
CREATE TABLE p2 (gone int, t text, v numeric(10,2), k int, d date);
ALTER TABLE p2 DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM ('1996-01-01') TO ('1997-01-01');
CREATE TABLE p3 PARTITION OF p DEFAULT PARTITION BY HASH (k);
CREATE TABLE p3a PARTITION OF p3 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE UNLOGGED TABLE p3b PARTITION OF p3 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO p SELECT i % 10, date '1995-01-01' + i % 1000, i / 4.0, 't' || i % 3 FROM generate_series(1, 6000) i;
ANALYZE p;
SELECT tableoid::regclass, count(*), sum(v) FROM p GROUP BY 1 ORDER BY 1;
SELECT k, count(*), sum(v), min(t) FROM p WHERE d < '1996-06-01' GROUP BY k ORDER BY k;
SELECT a.k, count(*), sum(b.v) FROM p a JOIN p b ON a.d = b.d AND a.k = b.k WHERE b.t = 't1' GROUP BY a.k ORDER BY a.k;
SET enable_partitionwise_join = on;
SET enable_partitionwise_aggregate = on;
SELECT a.k, count(*), sum(b.v) FROM p a JOIN p b ON a.d = b.d AND a.k = b.k WHERE b.t = 't1' GROUP BY a.k ORDER BY a.k;
SELECT d, count(*), sum(v) FROM p WHERE d BETWEEN '1995-12-30' AND '1996-01-02' GROUP BY d ORDER BY d;
PREPARE q(date) AS SELECT count(*), sum(v) FROM p WHERE d = $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE q('1995-03-03');
EXECUTE q('1997-03-03');
EXECUTE q(NULL);
SELECT (SELECT sum(v) FROM p WHERE d = x.d) FROM (VALUES (date '1995-03-03'), ('1996-03-03'), ('2020-01-01')) x(d);
ALTER TABLE p DETACH PARTITION p1;
EXECUTE q('1995-03-03');
RESET ALL;
SET search_path = hazard_relations;
SET client_min_messages = warning;
SET ccopt.force = on;
SET ccopt.buffer = force;

-- inheritance
CREATE TABLE parent (a int, b numeric(8,2));
CREATE TABLE child (own text) INHERITS (parent);
CREATE TABLE other (b numeric(8,2), z int, a int);
ALTER TABLE other INHERIT parent;
INSERT INTO parent SELECT i, i FROM generate_series(1, 1000) i;
INSERT INTO child SELECT i, i, 'o' FROM generate_series(1, 1000) i;
INSERT INTO other SELECT i, 0, i FROM generate_series(1, 1000) i;
SELECT count(*), sum(b), sum(a) FROM parent;
SELECT count(*), sum(b), sum(a) FROM ONLY parent;
SELECT tableoid::regclass, count(*) FROM parent WHERE a < 10 GROUP BY 1 ORDER BY 1;
UPDATE parent SET b = b + 1 WHERE a < 3;
SELECT sum(b) FROM parent;

-- temporary, unlogged, of a catalog, of toast, a sequence, a sample, views
CREATE TEMP TABLE tt ON COMMIT PRESERVE ROWS AS SELECT i AS a, i / 4.0 AS b FROM generate_series(1, 3000) i;
SELECT count(*), sum(b) FROM tt WHERE a > 10;
CREATE UNLOGGED TABLE ul AS TABLE tt;
SELECT count(*), sum(tt.b) FROM tt JOIN ul USING (a) WHERE ul.b > 5;
SELECT relkind, count(*) FROM pg_class WHERE relnamespace = 'hazard_relations'::regnamespace GROUP BY 1 ORDER BY 1;
SELECT count(*) > 100, count(DISTINCT typname) > 100 FROM pg_type WHERE typname LIKE '%a%';
SELECT a.attname, t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = 'hazard_relations.p'::regclass AND a.attnum > 0 ORDER BY 1;
SELECT count(*) FROM information_schema.columns WHERE table_schema = 'hazard_relations';
CREATE SEQUENCE s;
SELECT last_value, is_called FROM s;
SELECT count(*) FROM tt TABLESAMPLE BERNOULLI (100);
SELECT count(*) FROM tt TABLESAMPLE SYSTEM (0);
CREATE VIEW view1 AS SELECT a, sum(b) AS s FROM tt GROUP BY a;
SELECT count(*), sum(s) FROM view1 WHERE a < 100;
CREATE MATERIALIZED VIEW mv AS SELECT k, count(*) AS n, sum(v) AS s FROM p GROUP BY k;
SELECT * FROM mv ORDER BY k;
CREATE UNIQUE INDEX ON mv (k);
INSERT INTO p VALUES (3, '1996-02-02', 1000000, 'mv');
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT * FROM mv WHERE s > 1000000 ORDER BY k;
REFRESH MATERIALIZED VIEW mv;
SELECT count(*), sum(n) FROM mv;
-- ccopt cannot read tables of another access method than heap, nor foreign tables
CREATE EXTENSION IF NOT EXISTS postgres_fdw SCHEMA public;
CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw;
DO $$ BEGIN EXECUTE format('ALTER SERVER loop OPTIONS (host %L, dbname %L, port %L)', split_part(current_setting('unix_socket_directories'), ',', 1), current_database(), current_setting('port')); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER loop OPTIONS (user 'postgres');
CREATE FOREIGN TABLE ft (a int, b numeric(8,2)) SERVER loop OPTIONS (schema_name 'hazard_relations', table_name 'parent');
SELECT count(*), sum(ft.b) FROM ft WHERE b > 5;
SELECT count(*), sum(ft.b) FROM ft JOIN ul USING (a) WHERE ul.b > 5;
SELECT ft.a, count(*) FROM ft LEFT JOIN child c ON c.a = ft.a WHERE ft.a < 4 GROUP BY ft.a ORDER BY ft.a;
DROP SERVER loop CASCADE;
-- functions, VALUES, tables of tuples, lateral, whole joins
SELECT g % 3 AS m, count(*), sum(g) FROM generate_series(1, 3000) g GROUP BY 1 ORDER BY 1;
SELECT v.x, count(*) FROM (VALUES (1), (2), (NULL)) v(x) LEFT JOIN ul ON ul.a % 3 = v.x GROUP BY 1 ORDER BY 1;
SELECT count(*), sum(u.x) FROM tt, unnest(ARRAY[tt.a, tt.a + 1]) AS u(x) WHERE tt.a < 5;
SELECT count(*) FROM (SELECT * FROM tt NATURAL JOIN ul) j FULL JOIN child ON child.a = j.a;
SELECT k, grouping(k), t, sum(v) FROM p WHERE k < 3 GROUP BY ROLLUP (k, t) ORDER BY 1, 3, 2;
SELECT a, b, sum(b) OVER (ORDER BY a), rank() OVER (ORDER BY b DESC) FROM tt WHERE a < 6 ORDER BY a;
SELECT count(*) FROM (SELECT a FROM tt UNION SELECT a FROM ul EXCEPT SELECT a FROM child INTERSECT SELECT 5) s;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY b), mode() WITHIN GROUP (ORDER BY a % 7) FROM tt;
SELECT DISTINCT ON (a % 3) a % 3 AS m, a, b FROM tt ORDER BY a % 3, a DESC;
SELECT array_agg(a ORDER BY a DESC) FROM tt WHERE a < 6;
-- in a transaction that changes what a table is
BEGIN;
CREATE TABLE fresh AS SELECT i AS a FROM generate_series(1, 3000) i;
SELECT count(*), sum(a) FROM fresh;
TRUNCATE fresh;
SELECT count(*) FROM fresh;
COPY fresh FROM STDIN;
1
2
\.
SELECT sum(a) FROM fresh;
DROP TABLE fresh;
ROLLBACK;
DROP SCHEMA hazard_relations CASCADE;
