-- Batches keep pages pinned. All nodes of a statement, and of all open cursors, share one budget:
-- here a hundred local buffers. expected/ is a stock server's output.
SET temp_buffers = '800kB';
SET client_min_messages = warning;
SET ccopt.force = on;
CREATE TEMPORARY TABLE w (id int, a int, x text);
ALTER TABLE w ALTER x SET STORAGE plain;
INSERT INTO w SELECT i, i % 7, repeat('y', 7000) FROM generate_series(1, 2000) i;
ANALYZE w;
-- four scans at the same time, each of a page a row
SELECT count(*), sum(b.a) FROM w a JOIN w b ON a.id = b.id JOIN w c ON b.id = c.id JOIN w d ON d.id = c.id
 WHERE a.x > '0' AND b.x > '0' AND c.x > '0' AND d.x > '0';
SET ccopt.buffer = force;
SELECT count(*), sum(b.a) FROM w a JOIN w b ON a.id = b.id JOIN w c ON b.id = c.id JOIN w d ON d.id = c.id
 WHERE a.x > '0' AND b.x > '0' AND c.x > '0' AND d.x > '0';
RESET ccopt.buffer;
-- scans that stop within a batch keep its pins until the statement ends
SELECT (SELECT max(id) FROM (SELECT id FROM w WHERE x > '0' AND a < 6 LIMIT 150) s) AS one,
       (SELECT max(id) FROM (SELECT id FROM w WHERE x > '0' AND a < 5 LIMIT 150) s) AS two,
       (SELECT max(id) FROM (SELECT id FROM w WHERE x > '0' AND a < 4 LIMIT 150) s) AS three,
       (SELECT max(id) FROM (SELECT id FROM w WHERE x > '0' AND a > 0 LIMIT 150) s) AS four,
       (SELECT max(id) FROM (SELECT id FROM w WHERE x > '0' AND a > 1 LIMIT 150) s) AS five,
       (SELECT max(id) FROM (SELECT id FROM w WHERE x > '0' AND a > 2 LIMIT 150) s) AS six,
       (SELECT sum(a) FROM w WHERE x > '0') AS sum;
-- cursors that stay open keep the pins of their batch
BEGIN;
DECLARE c1 CURSOR FOR SELECT id FROM w WHERE x > '0' AND a < 6;
DECLARE c2 CURSOR FOR SELECT id FROM w WHERE x > '0' AND a < 6;
DECLARE c3 CURSOR FOR SELECT id FROM w WHERE x > '0' AND a < 6;
DECLARE c4 CURSOR FOR SELECT id FROM w WHERE x > '0' AND a < 6;
MOVE 200 IN c1;
MOVE 200 IN c2;
MOVE 200 IN c3;
MOVE 200 IN c4;
SELECT count(*), sum(a) FROM w WHERE x > '0';
-- an error resets the count: the next statements have their full budget
SAVEPOINT s;
SELECT sum(1 / (a - 3)) FROM w WHERE x > '0';
ROLLBACK TO s;
SELECT count(*), sum(a) FROM w WHERE x > '0';
FETCH 1 FROM c1;
COMMIT;
