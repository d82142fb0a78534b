-- The five transactions of TPC-C as functions, one call each. Installed by transactions/install.rs in one
-- transaction. Each returns what the terminal displays. Names of parameters end in _in, so that none is a
-- column's.
--
-- Isolation: see transactions/mod.rs. In short: READ COMMITTED; what is read and can change is locked, or
-- updated, first.

-- Clause 2.4. The lines are sorted by supplying warehouse and item: rows of STOCK are locked in the order of
-- the arrays, so that two New-Orders cannot deadlock. lines_in numbers the lines, since a row of stock may
-- occur twice.
CREATE FUNCTION hardmeter_tpcc_new_order(
    warehouse_in integer, district_in integer, customer_in integer,
    lines_in integer[], items_in integer[], supplies_in integer[], quantities_in integer[],
    OUT order_id integer, OUT entered timestamp, OUT warehouse_tax numeric, OUT district_tax numeric,
    OUT discount numeric, OUT last_name varchar, OUT credit char(2), OUT total numeric,
    OUT lines integer[], OUT names varchar[], OUT prices numeric[], OUT stocks integer[], OUT brands boolean[],
    OUT amounts numeric[]
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    line_count integer := cardinality(lines_in);
    done integer := 0;
    known_items integer[];
    known_prices numeric[];
BEGIN
    entered := localtimestamp;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = warehouse_in AND d_id = district_in
        RETURNING d_next_o_id - 1, d_tax INTO STRICT order_id, district_tax;
    SELECT w_tax, c_discount, c_last, c_credit INTO STRICT warehouse_tax, discount, last_name, credit
        FROM warehouse, customer
        WHERE w_id = warehouse_in AND c_w_id = warehouse_in AND c_d_id = district_in AND c_id = customer_in;
    INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
        VALUES (order_id, district_in, warehouse_in, customer_in, entered, NULL, line_count,
            (warehouse_in = ALL (supplies_in))::integer);
    INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (order_id, district_in, warehouse_in);
    LOOP
        WITH taken AS (
            UPDATE stock SET
                s_quantity = s_quantity - quantity + CASE WHEN s_quantity >= quantity + 10 THEN 0 ELSE 91 END,
                s_ytd = s_ytd + quantity,
                s_order_cnt = s_order_cnt + 1,
                s_remote_cnt = s_remote_cnt + (supply <> warehouse_in)::integer
            FROM unnest(lines_in, items_in, supplies_in, quantities_in) AS line (number, item_id, supply, quantity)
                JOIN item ON i_id = item_id
            WHERE s_w_id = supply AND s_i_id = item_id
            RETURNING number, item_id, supply, quantity, s_quantity, i_name,
                coalesce(known_prices[array_position(known_items, item_id)], i_price) AS price,
                coalesce(known_prices[array_position(known_items, item_id)], i_price) * quantity AS amount,
                i_data LIKE '%ORIGINAL%' AND s_data LIKE '%ORIGINAL%' AS brand,
                CASE district_in WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03
                    WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07
                    WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09 WHEN 10 THEN s_dist_10 END AS dist
        ), written AS (
            INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,
                ol_quantity, ol_amount, ol_dist_info)
            SELECT order_id, district_in, warehouse_in, number, item_id, supply, NULL, quantity, amount, dist FROM taken
        )
        SELECT lines || array_agg(number), names || array_agg(i_name), prices || array_agg(price),
            stocks || array_agg(s_quantity), brands || array_agg(brand), amounts || array_agg(amount),
            coalesce(total, 0) + coalesce(sum(amount), 0)
            INTO lines, names, prices, stocks, brands, amounts, total FROM taken;
        EXIT WHEN cardinality(lines) = line_count;
        IF coalesce(cardinality(lines), 0) = done THEN
            -- All other work is done: the cause is an unused item (clause 2.4.2.3), or wrong data.
            IF EXISTS (SELECT FROM item WHERE i_id = ANY (items_in)) THEN
                RAISE EXCEPTION 'warehouses % have no stock of items %', supplies_in, items_in;
            END IF;
            RAISE EXCEPTION USING ERRCODE = 'HM001', MESSAGE = 'Item number is not valid',
                DETAIL = concat_ws(' ', order_id, last_name, credit);
        END IF;
        -- UPDATE changes each row of stock once. A second line of the same row goes into another round, after
        -- the first, at the price that was read first, even if another session changes prices meanwhile
        -- (clause 3.4.1, level 2).
        IF known_items IS NULL THEN
            SELECT array_agg(item_id), array_agg(price) INTO known_items, known_prices
                FROM unnest(lines_in, items_in) AS line (number, item_id)
                    JOIN unnest(lines, prices) AS known (number, price) USING (number);
        END IF;
        done := cardinality(lines);
        SELECT array_agg(number), array_agg(item_id), array_agg(supply), array_agg(quantity)
            INTO lines_in, items_in, supplies_in, quantities_in
            FROM unnest(lines_in, items_in, supplies_in, quantities_in) AS line (number, item_id, supply, quantity)
            WHERE number <> ALL (lines);
    END LOOP;
    total := total * (1 - discount) * (1 + warehouse_tax + district_tax);
END $$;

-- Clause 2.5. customer_in is 0 where the customer is looked for by last_name_in.
CREATE FUNCTION hardmeter_tpcc_payment(
    warehouse_in integer, district_in integer, customer_warehouse_in integer, customer_district_in integer,
    customer_in integer, last_name_in varchar, amount_in numeric,
    OUT paid timestamp,
    OUT warehouse_name varchar, OUT warehouse_street_1 varchar, OUT warehouse_street_2 varchar, OUT warehouse_city varchar,
    OUT warehouse_state char(2), OUT warehouse_zip char(9),
    OUT district_name varchar, OUT district_street_1 varchar, OUT district_street_2 varchar, OUT district_city varchar,
    OUT district_state char(2), OUT district_zip char(9),
    OUT customer_id integer, OUT first_name varchar, OUT middle_name char(2), OUT last_name varchar,
    OUT street_1 varchar, OUT street_2 varchar, OUT city varchar, OUT state char(2), OUT zip char(9), OUT phone char(16),
    OUT since timestamp, OUT credit char(2), OUT credit_limit numeric, OUT discount numeric, OUT balance numeric,
    OUT data varchar
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    paid := localtimestamp;
    UPDATE warehouse SET w_ytd = w_ytd + amount_in WHERE w_id = warehouse_in
        RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip
        INTO STRICT warehouse_name, warehouse_street_1, warehouse_street_2, warehouse_city, warehouse_state, warehouse_zip;
    UPDATE district SET d_ytd = d_ytd + amount_in WHERE d_w_id = warehouse_in AND d_id = district_in
        RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip
        INTO STRICT district_name, district_street_1, district_street_2, district_city, district_state, district_zip;
    customer_id := customer_in;
    IF customer_in = 0 THEN
        -- Row n / 2, rounded up, of the customers with this name (clause 2.5.2.2). OFFSET 0 prevents a second
        -- search.
        SELECT ids[(cardinality(ids) + 1) / 2] INTO customer_id FROM (SELECT ARRAY(
            SELECT c_id FROM customer
            WHERE c_w_id = customer_warehouse_in AND c_d_id = customer_district_in AND c_last = last_name_in
            ORDER BY c_first, c_id) AS ids OFFSET 0) AS named;
    END IF;
    UPDATE customer SET
        c_balance = c_balance - amount_in,
        c_ytd_payment = c_ytd_payment + amount_in,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE c_credit WHEN 'BC' THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, district_in, warehouse_in,
            amount_in, c_data), 500) ELSE c_data END
        WHERE c_w_id = customer_warehouse_in AND c_d_id = customer_district_in AND c_id = customer_id
        RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit,
            c_credit_lim, c_discount, c_balance, CASE c_credit WHEN 'BC' THEN left(c_data, 200) END
        INTO STRICT first_name, middle_name, last_name, street_1, street_2, city, state, zip, phone, since, credit,
            credit_limit, discount, balance, data;
    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
        VALUES (customer_id, customer_district_in, customer_warehouse_in, district_in, warehouse_in, paid, amount_in,
            warehouse_name || '    ' || district_name);
END $$;

-- Clause 2.6. STABLE: all of it uses the snapshot of the calling statement.
CREATE FUNCTION hardmeter_tpcc_order_status(
    warehouse_in integer, district_in integer, customer_in integer, last_name_in varchar,
    OUT customer_id integer, OUT first_name varchar, OUT middle_name char(2), OUT last_name varchar, OUT balance numeric,
    OUT order_id integer, OUT entered timestamp, OUT carrier integer,
    OUT items integer[], OUT supplies integer[], OUT quantities integer[], OUT amounts numeric[], OUT delivered timestamp[]
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    customer_id := customer_in;
    IF customer_in = 0 THEN
        SELECT ids[(cardinality(ids) + 1) / 2] INTO customer_id FROM (SELECT ARRAY(
            SELECT c_id FROM customer WHERE c_w_id = warehouse_in AND c_d_id = district_in AND c_last = last_name_in
            ORDER BY c_first, c_id) AS ids OFFSET 0) AS named;
    END IF;
    SELECT c_first, c_middle, c_last, c_balance INTO STRICT first_name, middle_name, last_name, balance
        FROM customer WHERE c_w_id = warehouse_in AND c_d_id = district_in AND c_id = customer_id;
    SELECT o_id, o_entry_d, o_carrier_id INTO STRICT order_id, entered, carrier
        FROM orders WHERE o_w_id = warehouse_in AND o_d_id = district_in AND o_c_id = customer_id
        ORDER BY o_id DESC LIMIT 1;
    SELECT array_agg(ol_i_id), array_agg(ol_supply_w_id), array_agg(ol_quantity), array_agg(ol_amount),
        array_agg(ol_delivery_d) INTO items, supplies, quantities, amounts, delivered
        FROM order_line WHERE ol_w_id = warehouse_in AND ol_d_id = district_in AND ol_o_id = order_id;
END $$;

-- Clause 2.7. orders_out: O_ID by district, 0 if it had no order to deliver.
CREATE FUNCTION hardmeter_tpcc_delivery(warehouse_in integer, carrier_in integer, OUT orders_out integer[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    empty integer;
BEGIN
    orders_out := ARRAY(
        SELECT coalesce((SELECT no_o_id FROM new_order WHERE no_w_id = warehouse_in AND no_d_id = district_id
            ORDER BY no_o_id LIMIT 1 FOR UPDATE), 0)
        FROM generate_series(1, 10) AS district_id);
    IF 0 = ANY (orders_out) THEN
        -- No order: no New-Order of that district may commit before this transaction, or it would be a
        -- phantom (clause 3.4).
        FOR empty IN SELECT district_id FROM generate_series(1, 10) AS district_id WHERE orders_out[district_id] = 0 LOOP
            PERFORM FROM district WHERE d_w_id = warehouse_in AND d_id = empty FOR NO KEY UPDATE;
            orders_out[empty] := coalesce((SELECT no_o_id FROM new_order
                WHERE no_w_id = warehouse_in AND no_d_id = empty ORDER BY no_o_id LIMIT 1 FOR UPDATE), 0);
        END LOOP;
    END IF;
    DELETE FROM new_order USING unnest(orders_out) WITH ORDINALITY AS chosen (order_id, district_id)
        WHERE no_w_id = warehouse_in AND no_d_id = district_id AND no_o_id = order_id;
    WITH carried AS (
        UPDATE orders SET o_carrier_id = carrier_in
        FROM unnest(orders_out) WITH ORDINALITY AS chosen (order_id, district_id)
        WHERE o_w_id = warehouse_in AND o_d_id = district_id AND o_id = order_id
        RETURNING o_d_id, o_c_id
    ), delivered AS (
        UPDATE order_line SET ol_delivery_d = localtimestamp
        FROM unnest(orders_out) WITH ORDINALITY AS chosen (order_id, district_id)
        WHERE ol_w_id = warehouse_in AND ol_d_id = district_id AND ol_o_id = order_id
        RETURNING ol_d_id, ol_amount
    )
    UPDATE customer SET c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
        FROM carried JOIN (SELECT ol_d_id, sum(ol_amount) AS total FROM delivered GROUP BY ol_d_id) AS sums
            ON ol_d_id = o_d_id
        WHERE c_w_id = warehouse_in AND c_d_id = o_d_id AND c_id = o_c_id;
END $$;

-- Clause 2.8. STABLE: one snapshot.
CREATE FUNCTION hardmeter_tpcc_stock_level(
    warehouse_in integer, district_in integer, threshold_in integer, OUT low_stock integer
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT count(*) INTO low_stock
        FROM (SELECT DISTINCT ol_i_id FROM order_line
            WHERE ol_w_id = warehouse_in AND ol_d_id = district_in
                AND ol_o_id >= (SELECT d_next_o_id - 20 FROM district WHERE d_w_id = warehouse_in AND d_id = district_in)
                AND ol_o_id < (SELECT d_next_o_id FROM district WHERE d_w_id = warehouse_in AND d_id = district_in)
            ) AS lately
            JOIN stock ON s_w_id = warehouse_in AND s_i_id = ol_i_id
        WHERE s_quantity < threshold_in;
END $$;
