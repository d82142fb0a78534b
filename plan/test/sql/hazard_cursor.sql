-- Cursors: a batch is read ahead of the cursor's position, and cannot go backwards. expected/ is a stock server's output.
SET client_min_messages = warning;
CREATE SCHEMA hazard_cursor;
SET search_path = hazard_cursor;
CREATE TABLE h (id int, k int, v numeric(12,2));
INSERT INTO h SELECT i, i % 7, i / 4.0 FROM generate_series(1, 5000) i;
CREATE TABLE u (k int, name text);
INSERT INTO u SELECT i, 'name ' || i FROM generate_series(0, 6) i;
ANALYZE h, u;
SET ccopt.force = on;
SET ccopt.buffer = force;
SET enable_indexscan = off;

-- SCROLL: backwards, absolute, relative, past both ends
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, v FROM h WHERE v > 2;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH ABSOLUTE 1000 FROM c;
FETCH RELATIVE -5 FROM c;
FETCH LAST FROM c;
FETCH NEXT FROM c;
FETCH PRIOR FROM c;
MOVE BACKWARD ALL FROM c;
FETCH FIRST FROM c;
COMMIT;

-- neither SCROLL nor NO SCROLL: core's scans and joins can go backwards, so ccopt's must
BEGIN;
DECLARE c CURSOR FOR SELECT id, v FROM h WHERE v > 2;
FETCH 3 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH 2 FROM c;
COMMIT;
BEGIN;
DECLARE c CURSOR FOR SELECT h.id, u.name FROM h, u WHERE h.k = u.k AND h.id < 5;
MOVE 3 FROM c;
FETCH BACKWARD 10 FROM c;
COMMIT;
BEGIN;
DECLARE c CURSOR FOR SELECT k, sum(v) FROM h GROUP BY k ORDER BY k;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
COMMIT;

-- NO SCROLL: forward only, in portions that split batches
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id, v FROM h WHERE id % 2 = 0 ORDER BY id;
DECLARE d NO SCROLL CURSOR FOR SELECT id, v FROM h WHERE id <= 2050 AND v > 0;
FETCH 2 FROM c;
MOVE 1022 FROM c;
FETCH 3 FROM c;
MOVE 1023 FROM d;
FETCH 3 FROM d;
MOVE ALL FROM d;
FETCH 1 FROM d;
COMMIT;
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id FROM h WHERE v > 2;
FETCH 1 FROM c;
SAVEPOINT s;
FETCH BACKWARD 1 FROM c;
ROLLBACK TO s;
COMMIT;

-- a cursor sees the table as it was when it was opened
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id, v FROM h WHERE id < 4000;
FETCH 1 FROM c;
UPDATE h SET v = -1;
DELETE FROM h WHERE id > 2;
MOVE 1500 FROM c;
FETCH 1 FROM c;
SELECT count(*), sum(v) FROM h;
ROLLBACK;

-- held over the end of its transaction
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT k, count(*) FROM h GROUP BY k ORDER BY k;
FETCH 1 FROM c;
DECLARE d NO SCROLL CURSOR WITH HOLD FOR SELECT id FROM h WHERE v > 1000 ORDER BY id;
COMMIT;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH 2 FROM d;
CLOSE ALL;

-- opened and left unread in subtransactions that end
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id FROM h WHERE v > 2;
FETCH 1 FROM c;
SAVEPOINT a;
DECLARE d NO SCROLL CURSOR FOR SELECT h.id, u.name FROM h, u WHERE h.k = u.k AND h.id > 100 ORDER BY h.id;
FETCH 1 FROM d;
FETCH 1 FROM c;
SAVEPOINT b;
FETCH 1 FROM c;
FETCH 1 FROM d;
SELECT 1 / 0;
ROLLBACK TO b;
FETCH 1 FROM d;
RELEASE a;
FETCH 1 FROM c;
SAVEPOINT e;
DECLARE f NO SCROLL CURSOR FOR SELECT k, max(v) FROM h GROUP BY k;
MOVE 1 FROM f;
ROLLBACK TO e;
FETCH 1 FROM f;
ROLLBACK;

-- position of a cursor as the target of an update
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM h WHERE id = 17 FOR UPDATE;
FETCH 1 FROM c;
UPDATE h SET v = 0 WHERE CURRENT OF c RETURNING id, v;
ROLLBACK;
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT * FROM h WHERE id = 18;
FETCH 1 FROM c;
UPDATE h SET v = 0 WHERE CURRENT OF c RETURNING id, v;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM h WHERE id IN (18, 1900) ;
FETCH 2 FROM c;
DELETE FROM h WHERE CURRENT OF c RETURNING id, v;
ROLLBACK;

-- plpgsql: loops fetch in portions of 10 and 50; RETURN NEXT; scrolling in it
CREATE FUNCTION walk() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  c SCROLL CURSOR FOR SELECT id FROM h WHERE v > 2;
  n NO SCROLL CURSOR FOR SELECT id FROM h WHERE v > 2;
  r record; a int; b int; d int; total bigint := 0;
BEGIN
  OPEN c;
  FETCH c INTO a; FETCH c INTO a; FETCH PRIOR FROM c INTO b; CLOSE c;
  OPEN n;
  MOVE FORWARD 1030 FROM n;
  FETCH n INTO d; CLOSE n;
  FOR r IN SELECT id, v FROM h WHERE v > 2 LOOP
    total := total + r.id;
    BEGIN
      IF r.id % 1000 = 0 THEN RAISE EXCEPTION 'undone'; END IF;
    EXCEPTION WHEN OTHERS THEN total := total + 1;
    END;
    EXIT WHEN r.id > 3000;
  END LOOP;
  RETURN format('%s %s %s %s', a, b, d, total);
END $$;
SELECT walk();
SELECT walk();
-- rows handed out of a loop while it runs
CREATE FUNCTION portions() RETURNS SETOF int LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
  FOR r IN SELECT k, sum(v) AS s FROM h GROUP BY k ORDER BY k LOOP RETURN NEXT r.k; END LOOP;
  RETURN QUERY SELECT id FROM h WHERE v BETWEEN 5 AND 5.5 ORDER BY id;
END $$;
SELECT * FROM portions();
DROP SCHEMA hazard_cursor CASCADE;
