-- GROUPING SETS, ROLLUP and CUBE by BatchAgg: one pass, a hash table for each set.
set client_min_messages = warning;
create schema batch_sets;
set search_path = batch_sets;
set max_parallel_workers_per_gather = 0;
set ccopt.force = on;
create table sales (region text, product int, amount numeric(8,2), n int);
insert into sales values
  ('north', 1, 10.00, 1), ('north', 1, 2.50, 2), ('north', 2, 5.00, 3),
  ('south', 1, 1.00, 4), ('south', null, 0.25, 5), (null, 2, 7.00, 6);
analyze sales;

explain (costs off)
select region, product, sum(amount) from sales group by rollup (region, product);
-- GROUPING() distinguishes a NULL of the table from a NULL of the set.
select region, product, grouping(region, product) as without, sum(amount), count(*), min(n), max(n)
  from sales group by rollup (region, product) order by without, region, product;
select region, product, grouping(region) as r, grouping(product) as p, count(product), avg(n)
  from sales group by cube (region, product) order by r, p, region, product;
-- A set that is listed twice is returned twice.
select region, sum(n) from sales group by grouping sets ((region), (), (region)) order by region, sum;
select region, sum(n) from sales group by distinct grouping sets ((region), (), (region)) order by region, sum;
select sum(n) from sales group by grouping sets ((), ());
-- Expressions as keys, and over keys: they see the NULL of the set.
select product + 1 as next, coalesce(region, 'all') as region, sum(n)
  from sales group by grouping sets ((product + 1), (region)) order by next, region;

-- HAVING, on aggregates, keys and GROUPING().
select region, product, sum(n) from sales group by cube (region, product)
  having sum(n) > 5 and grouping(product) = 1 order by region;
select region, product, sum(n) from sales group by cube (region, product) having region = 'north' order by product;

-- No rows: one group of the empty set, none of the others.
select region, sum(n), count(*) from sales where n > 100 group by rollup (region);
select region, count(*) from sales where n > 100 group by grouping sets ((region));

-- FILTER, CASE, and a value that a batch cannot hold.
create table odd (k int, v numeric(10,2));
insert into odd select i % 3, i from generate_series(1, 9) i;
insert into odd values (0, 'NaN');
analyze odd;
select k, sum(v), sum(v) filter (where v < 4) as small, sum(case when v > 6 then v else 0 end) as large, max(v)
  from odd group by rollup (k) order by k;

-- Groups that do not fit: 30,000 in each of two sets, 64 kB for both.
create table many (a int, b int, v int);
insert into many select i, 30000 - i, 1 from generate_series(1, 30000) i;
insert into many select i, 30000 - i, 2 from generate_series(1, 30000) i;
analyze many;
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select set, count(*), sum(s), min(s), max(s) from
  (select grouping(a, b) as set, sum(v) as s from many group by grouping sets ((a), (b), ())) as grouped
  group by set order by set;
reset work_mem;
reset hash_mem_multiplier;

-- Started again with another parameter.
select o.k, g.k as key, g.total from (values (1), (2)) as o(k),
  lateral (select odd.k, count(*) as total from odd where odd.v < o.k + 2 group by rollup (odd.k)) as g
  order by o.k, g.k;

-- GROUPING() without sets is 0.
select region, grouping(region), sum(n) from sales group by region order by region;

-- Cases left to core. Two columns of a subquery that are one column of the table.
with sets as materialized
  (select a, b, count(*) from (select product as a, product as b from sales) as same group by rollup (a, b))
select * from sets order by a, b, count;
-- Core drops the sort by a constant column up to 17, and answers in the order of its own node.
select region, count(*) from sales where region = 'north' group by rollup (region) order by region;
explain (costs off) select region, count(distinct n) from sales group by rollup (region);
set enable_hashagg = off;
explain (costs off) select region, count(*) from sales group by rollup (region);
reset enable_hashagg;
drop schema batch_sets cascade;
