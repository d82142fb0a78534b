-- Ten lines, items in ascending order and from the home warehouse, so that locks are taken in the procedure's
-- order.
\set warehouse random(1, :warehouses)
\set district random(1, 10)
\set customer random(1, 3000)
\set item1 random(1, 10000)
\set quantity1 random(1, 10)
\set item2 random(10001, 20000)
\set quantity2 random(1, 10)
\set item3 random(20001, 30000)
\set quantity3 random(1, 10)
\set item4 random(30001, 40000)
\set quantity4 random(1, 10)
\set item5 random(40001, 50000)
\set quantity5 random(1, 10)
\set item6 random(50001, 60000)
\set quantity6 random(1, 10)
\set item7 random(60001, 70000)
\set quantity7 random(1, 10)
\set item8 random(70001, 80000)
\set quantity8 random(1, 10)
\set item9 random(80001, 90000)
\set quantity9 random(1, 10)
\set item10 random(90001, 100000)
\set quantity10 random(1, 10)
SELECT * FROM hardmeter_tpcc_new_order(:warehouse::integer, :district::integer, :customer::integer,
    ARRAY[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    ARRAY[:item1, :item2, :item3, :item4, :item5, :item6, :item7, :item8, :item9, :item10]::integer[],
    array_fill(:warehouse::integer, ARRAY[10]),
    ARRAY[:quantity1, :quantity2, :quantity3, :quantity4, :quantity5, :quantity6, :quantity7, :quantity8, :quantity9, :quantity10]::integer[]);
