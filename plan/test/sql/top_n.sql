-- ORDER BY ... LIMIT: rows and groups that cannot be among the first are dropped below the sort.
set client_min_messages = warning;
create schema top_n;
set search_path = top_n;
set max_parallel_workers_per_gather = 0;
set ccopt.force = on;

-- Whether, by EXPLAIN ANALYZE, the node below the sort dropped rows.
create function drops(query text, out node text, out dropped text) returns setof record language plpgsql as $$
declare line text; begin
  for line in execute 'explain (analyze, costs off, timing off, summary off) ' || query loop
    if line ~ 'Custom Scan' then node := substring(line from 'Custom Scan \((\w+)\)'); end if;
    if line ~ 'Top-N' then
      dropped := case when line ~ 'Filter: 0$' then 'none' else 'some' end;
      return next;
    end if;
  end loop;
end $$;

create table items (id int, price numeric(10,2), made date, name text);
insert into items select i, i * 37 % 20011 / 4.0, date '2000-01-01' + i * 101 % 5003, 'item ' || i from generate_series(1, 20010) i;
analyze items;

-- The largest price is 20010 / 4 = 5002.50; rows are not in its order.
select price, id * 37 % 20011 as check from items order by price desc limit 3;
select * from drops('select price, id from items order by price desc limit 3');
select price, made from items order by price limit 3 offset 2;
select * from drops('select price, made from items order by price limit 3 offset 2');
-- In the worst order each row is better than all before.
select id from items order by id desc limit 3;
select * from drops('select id from items order by id desc limit 3');
-- In the best order the first three rows are the result.
select id, name from items order by id limit 3;
select * from drops('select id, name from items order by id limit 3');
-- Dates; equal first keys, of which the second decides; each of 5,003 days is there three times or four.
select made, max(id) from (select made, id from items order by made desc, id limit 8) as last group by made order by made desc;
select * from drops('select made, id from items order by made desc, id limit 8');
-- A row that a filter removes must not count.
select id from items where price > 5002 and made < '2005-01-01' order by id limit 2;
select * from drops('select id from items where price > 5002 and made < ''2005-01-01'' order by id limit 2');
-- A condition evaluated row by row switches it off: a row might count that the condition removes later.
select * from drops('select id from items where name ~ ''9$'' order by id limit 3');
select id from items where name ~ '999$' order by id desc limit 2;
-- No limit, one that is too large, WITH TIES, none of the rows.
select * from drops('select id from items order by id');
select * from drops('select id from items order by id limit 20000');
select * from drops('select made from items order by made fetch first 1 row with ties');
select made, count(*) over () from items order by made fetch first 1 row with ties;
select id from items order by id limit 0;

-- NULL first and last, NaN, infinity.
create table odd (v numeric(10,2), d date);
insert into odd select i, '2020-01-01' from generate_series(1, 3000) i;
insert into odd values ('NaN', null), (null, 'infinity'), (null, '-infinity');
insert into odd select i, '2020-01-02' from generate_series(3001, 6000) i;
analyze odd;
select v from odd order by v desc limit 4;
select v from odd order by v desc nulls last limit 3;
select v from odd order by v limit 2;
select v from odd order by v nulls first limit 3;
select d from odd order by d limit 2;
select d from odd order by d desc limit 3;
select * from drops('select v from odd order by v desc limit 4');
select v from odd order by v nulls last offset 5999;
select count(*) from (select v from odd order by v nulls last limit 6002) as most;

-- Another bound each time: from a parameter, and of an outer row.
prepare first (int) as select id from items order by id desc limit $1;
execute first (1);
execute first (2);
select n, array_agg(id) from generate_series(1, 3) as n, lateral (select id from items order by id desc limit n) as top group by n order by n;
select n, array_agg(id order by id) from (values (1), (100), (3)) as o(n), lateral (select id from items where id > n order by id limit 2) as top group by n order by n;

-- Groups: those behind the first get no result.
select id % 1000 as g, sum(price) as total from items group by 1 order by total desc, g limit 3;
select id % 1000 as g, count(*) from items group by 1 order by count(*), g limit 2;
select * from drops('select id % 1000 as g, sum(price) as total from items group by 1 order by total desc, g limit 3');
select * from drops('select id % 1000 as g, max(made) from items group by 1 order by 2 limit 3');
-- An average is not a number that a batch holds; a group that HAVING removes must not count.
select * from drops('select id % 1000 as g, avg(price) from items group by 1 order by 2 limit 3');
select id % 1000 as g, sum(id) from items group by 1 having sum(id) < 200000 order by 2 desc limit 2;
select * from drops('select id % 1000 as g, sum(id) from items group by 1 having sum(id) < 200000 order by 2 desc limit 2');
-- Sums that are NULL, and one that is NaN.
select d, sum(v), count(*) from odd group by d order by sum(v) desc, d limit 2;
select d, sum(v) from odd group by d order by sum(v) nulls last limit 2;
-- Groups in files.
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select id, count(*) + sum(id) as s from items group by id order by sum(id) desc limit 3;
select * from drops('select id, sum(id) from items group by id order by sum(id) desc limit 3');
reset work_mem;
reset hash_mem_multiplier;
-- Grouping sets; the largest group contains all rows.
select id % 3 as third, sum(id) from items group by rollup (1) order by 2 desc limit 2;

-- Rows of a join, inner and left: 13 of 20,010 have no name, and these have the largest ids.
create table names (id int, label text);
insert into names select i, 'label ' || i from generate_series(1, 19997) i;
analyze names;
set ccopt.require = 'BatchHashJoin';
select i.id, n.label from items i join names n on n.id = i.id order by i.id desc limit 2;
select i.id, n.label from items i left join names n on n.id = i.id order by i.id desc limit 2;
select i.id, n.label from items i left join names n on n.id = i.id order by n.id desc nulls last limit 2;
select i.id, i.made from items i where exists (select from names n where n.id = i.id and n.label like 'label 1%') order by i.id desc limit 2;
reset ccopt.require;
select * from drops('select i.id, n.label from items i join names n on n.id = i.id order by i.id desc limit 2');

-- Partitions, each with a sort of its own, and workers.
create table parts (id int, v int) partition by range (id);
create table parts1 partition of parts for values from (0) to (10000);
create table parts2 partition of parts for values from (10000) to (30000);
insert into parts select i, i * 7 % 20011 from generate_series(1, 20010) i;
analyze parts;
select v from parts order by v desc limit 3;
set max_parallel_workers_per_gather = 2;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
select id from items order by id desc limit 3;
select v from parts order by v limit 3;
reset max_parallel_workers_per_gather;

set ccopt.enable_top_n = off;
select * from drops('select id from items order by id desc limit 3');
reset ccopt.enable_top_n;
drop schema top_n cascade;
