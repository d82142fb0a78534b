-- Statements that PostgreSQL's parser accepts, one per line. No two are the same statement.
select abalance from pgbench_accounts where aid = 4711
update pgbench_accounts set abalance = abalance + -2374 where aid = 91841
insert into pgbench_history (tid, bid, aid, delta, mtime) values (6, 1, 93941, -4407, current_timestamp)
begin
commit
rollback
select 1
select 1 from t
select a from t
select a, b from t
select b from t
select t.a from t
select * from t
select count(*) from t
select count(a) from t
select count(distinct a) from t
select distinct a from t
select distinct on (a) a, b from t order by a, b desc
select a from t where b = 5
select a from t where b < 5
select a from t where b <> 5
select a from t where b <= 5
select a from t where b = -5 and c = 'x'
select a from t where b = -5 or c = 'x'
select a from t where b in (1, 2, 3)
select a from t where b not in (1, 2, 3)
select a from t where (b, c) in ((1, 2), (3, 4))
select a from t where b = any (array[1, 2, 3])
select a from t where b between 1 and 10
select a from t where b not between 1 and 10
select a from t where b is null
select a from t where b is not null
select a from t where b is true
select a from t where b = true and c = null
select a from t where b like 'x%'
select a from t where b ilike 'x%'
select a from t where b ~ '^x' and c !~* 'y$'
select a from t where d @> '{"k": 1}' and e <@ array[1, 2]
select a from t where d -> 'k' = '1'
select a from t where d ->> 'k' = '1'
select a from t where d #>> '{k,1}' = '1'
select a from t where exists (select 1 from u where u.id = t.id)
select a from t where not exists (select 1 from u where u.id = t.id)
select a from t where b = (select max(b) from u)
select a from t order by b
select a from t order by b desc
select a from t order by b desc nulls last
select a from t order by b limit 10
select a from t order by b limit 10 offset 20
select a from t order by b fetch first 10 rows only
select a from t for update
select a from t for update skip locked
select a, sum(b) from t group by a
select a, sum(b) from t group by a having sum(b) > 10
select a, sum(b) from t group by rollup (a)
select a, sum(b) from t group by grouping sets ((a), ())
select a, rank() over (partition by b order by c) from t
select a, rank() over (partition by c order by b) from t
select a, sum(b) over (order by c rows between 2 preceding and current row) from t
select a from t join u on t.id = u.id
select a from t left join u on t.id = u.id
select a from t right join u on t.id = u.id
select a from t full join u on t.id = u.id
select a from t cross join u
select a from t natural join u
select a from t join u using (id)
select a from t, u where t.id = u.id
select a from t, lateral (select b from u where u.id = t.id limit 1) x
select a from t union select b from u
select a from t union all select b from u
select a from t except select b from u
select a from t intersect select b from u
with x as (select a from t) select a from x
with recursive x(n) as (values (1) union all select n + 1 from x where n < 100) select sum(n) from x
with gone as (delete from t where a = 5 returning *) insert into archive select * from gone
select case when a > 5 then 'many' else 'few' end from t
select case a when 5 then 1 when 6 then 2 end from t
select coalesce(a, 0), nullif(b, ''), greatest(c, -1) from t
select a::int, b::numeric(10, 2), cast(c as text) from t
select date '2020-01-01' + interval '1 day'
select extract(year from a) from t
select substring(a from 2 for 3), position('x' in a), trim(both ' ' from b) from t
select a[1], a[2:3] from t
select array[1, 2, 3], array(select b from u)
select a + b, a - b, a * b, a / b, a % b, a ^ b, -a, +a, @ a from t
select a || 'x' || b from t
select a & 1, a | 2, a # 3, ~a, a << 1, a >> 2 from t
select a at time zone 'utc' from t
select row(1, 'x'), (a).b from t
select (a + 1) * 2 from t
select not a from t
select "a" from "t"
select "A b" from "T"
select generate_series(1, 100)
select a from generate_series(1, 100) a
select a from unnest(array[1, 2]) with ordinality as x(a, n)
select a from t tablesample system (10)
select a from only t
select a from public.t
select e'it\'s', b'01', x'ff', U&'d\0061t', $$ it's $$, $tag$ $$ $tag$, 1.5e-3, .5, 0xff, 1_000
insert into t values (1, 'a')
insert into t (a, b) values (1, 'a')
insert into t (b, a) values (1, 'a')
insert into t (a, b) values (1, 'a'), (2, 'b'), (3, null)
insert into t (a, b) values (1, now()), (2, now())
insert into t (a, b) values (1, default)
insert into t (a, b) values (1, 'a') returning a
insert into t (a, b) values (1, 'a') on conflict do nothing
insert into t (a, b) values (1, 'a') on conflict (a) do update set b = excluded.b
insert into t select a, b from u where a > 5
insert into t default values
update t set a = 5
update t set a = 5 where b = 6
update t set b = 5 where a = 6
update t set a = a + 1, b = default where c = 6
update t set (a, b) = (1, 'x') where c = 6
update t set a = u.a from u where t.id = u.id
update t set a = null where b is null
delete from t
delete from t where a = 5
delete from t using u where t.id = u.id and u.a = 5
merge into t using u on t.id = u.id when matched then update set a = u.a when not matched then insert (id, a) values (u.id, 0)
create table n (a int not null default 5, b text default null, primary key (a))
create table n (a int not null default 5, b text default null, unique (a))
create index on t (a)
create index on t (b)
create unique index on t (a)
create index on t using gin (a)
alter table t add column c int
alter table t drop column c
drop table t
drop table if exists t
truncate t
truncate t, u
vacuum t
analyze t
explain select a from t
explain analyze select a from t
explain (analyze, buffers) select a from t
prepare p as select a from t where b = $1
execute p (5)
deallocate p
declare c cursor for select a from t
fetch 10 from c
close c
copy t from stdin
copy t to stdout
copy (select a from t) to stdout
lock table t in share mode
set work_mem = '64MB'
set jit = off
show work_mem
savepoint s
rollback to savepoint s
release savepoint s
listen x
notify x
grant select on t to public
revoke select on t from public
create view v as select a from t
refresh materialized view v
call p(1, 'x')
do $$ begin perform 1; end $$
select f(1)
select g(1)
select f(a) from t
select f(a => 1) from t
select f(variadic array[1, 2]) from t
select current_date, current_timestamp, current_user, localtime
select a is distinct from b from t
select a is not distinct from b from t
select json_build_object('k', a, 'l', b) from t
select xmlelement(name foo, a) from t
select a collate "C" from t
select string_agg(a, ',' order by b) filter (where c > 5) from t
select percentile_cont(0.5) within group (order by a) from t
values (1, 'a'), (2, 'b')
table t
